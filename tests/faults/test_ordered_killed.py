"""kill -9 of workers and of the broker: the messages of a key stay in order, and with one worker at a time.

A failing run is repeated with HEADRACE_TEST_KILL_SEED set to the seed that it printed.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from msgspec import Struct

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.kafka.share_groups import describe_share_group
from tests.faults.broker_process import BrokerProcess

TOPIC, GROUP = "orders", "packers"
PARTITIONS, WORKERS = 2, 3
LOCK_S = 1.0
PATIENCE_S = 60.0


class Note(Struct, frozen=True):
    event: str
    worker: int
    key: str
    number: int
    at_s: float


class Work(Struct):
    """One message in the hands of a worker."""

    worker: int
    number: int
    start_s: float
    end_s: float


class Pool:
    """Workers in processes of their own; a killed one is replaced."""

    def __init__(self, broker: BrokerProcess, file: Path, chance: random.Random) -> None:
        self._broker = broker
        self._file = file
        self._chance = chance
        self._processes: list[subprocess.Popen[bytes]] = []
        self.killed_at_s: dict[int, float] = {}
        file.touch()

    def add(self) -> None:
        arguments = [
            self._broker.bootstrap,
            TOPIC,
            GROUP,
            str(self._file),
            str(self._chance.randrange(2**32)),
        ]
        self._processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.faults.ordered_worker", *arguments], stderr=subprocess.DEVNULL
            )
        )

    def kill_one(self) -> None:
        process = self._processes.pop(self._chance.randrange(len(self._processes)))
        process.kill()
        process.wait()
        self.killed_at_s[process.pid] = time.monotonic()

    def end(self) -> None:
        while self._processes:
            self.kill_one()

    def notes(self) -> list[Note]:
        found = []
        for line in self._file.read_text().splitlines():
            event, worker, key, number, at_s = line.split()
            found.append(Note(event, int(worker), key, int(number), float(at_s)))
        return found


@contextmanager
def pool_of(broker: BrokerProcess, file: Path, chance: random.Random) -> Iterator[Pool]:
    pool = Pool(broker, file, chance)
    try:
        for _ in range(WORKERS):
            pool.add()
        yield pool
    finally:
        pool.end()


def prepare(broker: BrokerProcess, keys: int, count: int) -> None:
    cluster = Cluster(broker.bootstrap, timeout_s=30)
    cluster.create_topic(TOPIC, partitions=PARTITIONS)
    settings = {
        "headrace.share.order": "key",
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(int(LOCK_S * 1000)),
        "share.delivery.count.limit": "10000",
        "share.session.timeout.ms": "2000",
        "share.heartbeat.interval.ms": "500",
    }
    cluster.alter_configs("group", GROUP, settings)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "linger.ms": 2})
    for number in range(count):
        for key in range(keys):
            producer.produce(TOPIC, str(number), f"k{key}")
    assert producer.flush(30) == 0


def wait_for(pool: Pool, accepted: int) -> None:
    """Until so many messages were accepted."""
    deadline_s = time.monotonic() + PATIENCE_S
    while sum(note.event == "accepted" for note in pool.notes()) < accepted:
        assert time.monotonic() < deadline_s, "work continues"
        time.sleep(0.02)


def wait_until_done(broker: BrokerProcess) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    left: int | None = None
    while left != 0:
        assert time.monotonic() < deadline_s, f"{left} messages are not done"
        time.sleep(0.05)
        with suppress(RequestFailed):  # the broker loads its groups
            left = describe_share_group(("127.0.0.1", broker.port), GROUP, 30).not_done


def check(notes: list[Note], killed_at_s: dict[int, float], keys: int, count: int) -> None:
    works: dict[str, list[Work]] = defaultdict(list)
    open_works: dict[tuple[int, str], Work] = {}
    processed: dict[str, int] = dict.fromkeys((f"k{key}" for key in range(keys)), -1)
    accepted = dict(processed)
    done: set[tuple[str, int]] = set()
    for note in sorted(notes, key=lambda each: each.at_s):
        if note.event == "start":
            assert note.number <= processed[note.key] + 1, f"{note} before the one in front of it"
            assert note.number > accepted[note.key], f"{note} was accepted before"
            work = Work(note.worker, note.number, note.at_s, killed_at_s[note.worker])
            open_works[note.worker, note.key] = work
            works[note.key].append(work)
        elif note.event == "accepted":
            # Noted when the broker has answered, and by then another worker may be done with the next one. But no
            # worker has started this one again, before or after the broker had accepted it.
            last = next(work for work in reversed(works[note.key]) if work.number == note.number)
            assert last.worker == note.worker, f"{note} of a message that {last.worker} started later"
            assert (note.key, note.number) not in done, f"{note} was accepted before"
            done.add((note.key, note.number))
            accepted[note.key] = max(accepted[note.key], note.number)
        else:
            work = open_works.pop((note.worker, note.key))
            assert work.number == note.number
            work.end_s = note.at_s
            if note.event == "end":
                processed[note.key] = max(processed[note.key], note.number)
    assert set(processed.values()) == {count - 1}, "every message was processed"
    for key, of_key in works.items():
        for one, other in itertools.pairwise(of_key):
            # A worker that the machine suspended loses its lock, and may not know it yet.
            is_suspended = one.end_s > one.start_s + LOCK_S / 2
            assert is_suspended or other.start_s >= one.end_s, f"{key}: {one} and {other} at the same time"


def run_kills(folder: Path, *, keys: int, count: int, kills: int) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_KILL_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HEADRACE_TEST_KILL_SEED={seed}")
    chance = random.Random(seed)
    with BrokerProcess(folder / "data", checkpoint_interval_ms=200) as broker:
        prepare(broker, keys, count)
        with pool_of(broker, folder / "notes", chance) as pool:
            total = keys * count
            for number in range(kills):
                wait_for(pool, total * number // (kills + 1) + chance.randrange(total // (2 * kills + 2)))
                if number % 3 == 2:
                    broker.kill()
                    broker.start()
                else:
                    pool.kill_one()
                    pool.add()
            wait_until_done(broker)
        assert "Traceback" not in broker.log, broker.log
    check(pool.notes(), pool.killed_at_s, keys, count)


def test_order_of_keys_survives_killed_workers_and_a_killed_broker(tmp_path: Path) -> None:
    run_kills(tmp_path, keys=8, count=50, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_order_of_keys_survives_thirty_kills(tmp_path: Path) -> None:
    run_kills(tmp_path, keys=40, count=150, kills=30)
