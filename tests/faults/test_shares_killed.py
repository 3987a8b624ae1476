"""kill -9 of consumers and of the broker under load: nothing accepted comes again, nothing is lost, each letter once.

A failing run is repeated with HEADRACE_TEST_KILL_SEED set to the seed that it printed.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.testing.wire import Disconnected, Wire
from tests.broker.observing import eventually
from tests.broker.requests import batch, create_topic, end_offset, produce, read_all
from tests.broker.share_requests import ACCEPT, REJECT, RELEASE, ShareMember, group_offset, set_group_configs
from tests.faults.broker_process import BrokerProcess

TOPIC, GROUP, DEAD = "work", "workers", "dlq.workers"
WORKERS = 3
PATIENCE_S = 15
"""For a consumer to be given something: more than enough, and less than the test's own time."""


class Ledger:
    """What workers were given and what was acknowledged to them, by value; one lock for all of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.delivered: Counter[bytes] = Counter()
        self.accepted: set[bytes] = set()
        self.rejected: set[bytes] = set()
        self.rejections: Counter[ErrorCode] = Counter()
        self.wrongs: list[str] = []

    def deliver(self, value: bytes) -> None:
        with self._lock:
            self.delivered[value] += 1
            if value in self.accepted:
                self.wrongs.append(f"{value!r} came again after it was accepted")
            if value in self.rejected:
                self.wrongs.append(f"{value!r} came again after it was rejected")

    def reject(self, code: ErrorCode) -> None:
        with self._lock:
            self.rejections[code] += 1

    def done(self, values: set[bytes], rejected: set[bytes]) -> None:
        with self._lock:
            self.accepted |= values
            self.rejected |= rejected

    @property
    def finished(self) -> int:
        with self._lock:
            return len(self.accepted) + len(self.rejected)


class Worker(threading.Thread):
    """Fetches, decides by chance, acknowledges; starts again when its connection breaks.

    Records without a confirmed acknowledgement may be redelivered: only confirmed ones count.
    """

    def __init__(self, bootstrap: str, topic_id: uuid.UUID, ledger: Ledger, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._address = bootstrap
        self._topic_id = topic_id
        self._ledger = ledger
        self._chance = chance
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(OSError, Disconnected), Wire(self._address) as wire:
                self._work(ShareMember(wire, GROUP, self._topic_id))
            time.sleep(0.02)

    def _work(self, member: ShareMember) -> None:
        while not self.stopping.is_set():
            answer = member.fetch_all(max_wait_ms=200, max_records=20)
            if answer.error_code:
                return  # the broker is about to stop
            offsets = member.values_in(answer)
            if not offsets:
                continue
            for value in offsets.values():
                self._ledger.deliver(value)
            if self._chance.random() < 0.05:
                return  # disconnects with all its locks
            self._decide(member, offsets)

    def _decide(self, member: ShareMember, offsets: dict[int, bytes]) -> None:
        kinds = {
            offset: REJECT if value.endswith(b"7") else self._chance.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE))
            for offset, value in offsets.items()
        }
        code = member.acknowledge(*((offset, offset, kind) for offset, kind in sorted(kinds.items())))
        if code is not ErrorCode.NONE:
            self._ledger.reject(code)
        else:
            self._ledger.done(
                {offsets[offset] for offset, kind in kinds.items() if kind == ACCEPT},
                {offsets[offset] for offset, kind in kinds.items() if kind == REJECT},
            )


@contextlib.contextmanager
def at_work(
    broker: BrokerProcess, topic_id: uuid.UUID, ledger: Ledger, chance: random.Random
) -> Iterator[None]:
    workers = [
        Worker(broker.bootstrap, topic_id, ledger, random.Random(chance.random())) for _ in range(WORKERS)
    ]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.stopping.set()
        for worker in workers:
            worker.join()


def prepare(broker: BrokerProcess, **configs: object) -> uuid.UUID:
    with Wire(broker.bootstrap) as wire:
        topic_id = create_topic(wire, TOPIC)
        wanted = {
            "share_auto_offset_reset": "earliest",
            "share_delivery_count_limit": 1000,
            "errors_deadletterqueue_topic_name": DEAD,
            **configs,
        }
        assert set_group_configs(wire, GROUP, **wanted) is ErrorCode.NONE
        return topic_id


def write(broker: BrokerProcess, numbers: range) -> None:
    with Wire(broker.bootstrap) as wire:
        for begin in range(numbers.start, numbers.stop, 50):
            values = [str(number).encode() for number in range(begin, min(begin + 50, numbers.stop))]
            assert produce(wire, TOPIC, batch(*values)).error_code == 0


def letters(wire: Wire) -> list[bytes | None]:
    try:
        end_offset(wire, DEAD)
    except AssertionError:
        return []
    return [record.value for record in read_all(wire, DEAD)]


def check(broker: BrokerProcess, ledger: Ledger, count: int) -> None:
    everything = {str(number).encode() for number in range(count)}
    rejected = {value for value in everything if value.endswith(b"7")}
    with Wire(broker.bootstrap) as wire:

        def is_done() -> bool:
            offset = group_offset(wire, GROUP)
            return offset is not None and offset.start_offset == count

        eventually(is_done, "every record is done, and none is left")
        dead = letters(wire)
    assert ledger.wrongs == []
    assert set(ledger.delivered) == everything, "none was lost"
    assert Counter(dead) == Counter(dict.fromkeys(rejected, 1)), "each dead letter once"
    assert ledger.accepted <= everything - rejected
    assert "Traceback" not in broker.log, broker.log


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_broker_killed_under_load_delivers_nothing_twice_that_was_accepted(
    tmp_path: Path, durability: str
) -> None:
    run_kills(tmp_path, durability, kills=4, records_per_kill=500)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_broker_killed_thirty_times(tmp_path: Path) -> None:
    run_kills(tmp_path, "fsync", kills=30, records_per_kill=1000)


def run_kills(tmp_path: Path, durability: str, *, kills: int, records_per_kill: int) -> None:
    seed = int(os.environ.get("HEADRACE_TEST_KILL_SEED", random.SystemRandom().randrange(2**32)))
    print(f"HEADRACE_TEST_KILL_SEED={seed}")
    chance = random.Random(seed)
    ledger = Ledger()
    with BrokerProcess(tmp_path / "data", durability=durability, checkpoint_interval_ms=200) as broker:
        topic_id = prepare(broker)
        with at_work(broker, topic_id, ledger, chance):
            for number in range(kills):
                write(broker, range(number * records_per_kill, (number + 1) * records_per_kill))
                wanted = number * records_per_kill + chance.randrange(records_per_kill // 2)
                eventually(lambda wanted=wanted: ledger.finished >= wanted, "work continues")  # type: ignore[misc]
                broker.kill()
                broker.start()
            eventually_done(broker, kills * records_per_kill)
        check(broker, ledger, kills * records_per_kill)


def eventually_done(broker: BrokerProcess, count: int) -> None:
    with Wire(broker.bootstrap) as wire:

        def is_done() -> bool:
            offset = group_offset(wire, GROUP)
            return offset is not None and offset.start_offset == count

        eventually(is_done, "all is done")


CONSUMER = """
import sys
from confluent_kafka import ShareConsumer
consumer = ShareConsumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2],
                          "share.acknowledgement.mode": "explicit"})
consumer.subscribe([sys.argv[3]])
while True:
    messages = [message for message in consumer.poll(0.5) if message.error() is None]
    for message in messages:
        print("got", message.value().decode(), flush=True)
    for message in messages:
        consumer.acknowledge(message)
    if messages:
        outcome = consumer.commit_sync()
        if all(error is None for error in outcome.values()):
            for message in messages:
                print("accepted", message.value().decode(), flush=True)
"""


def test_consumers_killed_at_work_lose_nothing_and_repeat_nothing_accepted(tmp_path: Path) -> None:
    """Real consumers, killed at any moment: messages that they had not accepted are delivered to the next."""
    count = 1500
    with BrokerProcess(tmp_path / "data") as broker:
        prepare(broker, share_partition_max_record_locks=100)
        write(broker, range(count))
        outputs = [killed_consumer(broker, lines=150 + 40 * number) for number in range(5)]
        accepted: set[str] = set()
        for output in outputs:
            words = [line.split() for line in output.splitlines()]
            got = {word[1] for word in words if word[0] == "got" and len(word) == 2}
            assert not got & accepted, "accepted records came again"
            accepted |= {word[1] for word in words if word[0] == "accepted" and len(word) == 2}
        assert len(accepted) > 100, "the consumers were at work when they were killed"
        with Wire(broker.bootstrap) as wire:
            rest = rest_of(wire)
        assert not rest & accepted
        given = {word for output in outputs for line in output.splitlines() for word in line.split()[1:]}
        assert given | rest == {str(number) for number in range(count)}


def killed_consumer(broker: BrokerProcess, *, lines: int) -> str:
    """The output of a consumer until it was killed, after about so many lines."""
    consumer = subprocess.Popen(
        [sys.executable, "-c", CONSUMER, broker.bootstrap, GROUP, TOPIC],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert consumer.stdout is not None
    # Reading a pipe cannot time out by itself; ending the process ends the reading.
    deadline = threading.Timer(PATIENCE_S, consumer.kill)
    deadline.start()
    output = []
    for line in consumer.stdout:
        output.append(line)
        if len(output) == lines:
            consumer.kill()
    deadline.cancel()
    consumer.wait()
    consumer.stdout.close()
    return "".join(output)


def rest_of(wire: Wire) -> set[str]:
    """Messages without an accept, acquired by one more member."""
    topic_id = topic_ids(wire)[TOPIC]
    member = ShareMember(wire, GROUP, topic_id)
    rest: set[str] = set()

    def is_empty() -> bool:
        offsets = member.offsets_and_values(max_wait_ms=100)
        if offsets:
            rest.update(value.decode() for value in offsets.values())
            assert member.acknowledge(*((one, one, ACCEPT) for one in sorted(offsets))) is ErrorCode.NONE
        offset = group_offset(wire, GROUP)
        return offset is not None and offset.lag == 0

    eventually(is_empty, "everything is done")
    return rest


def topic_ids(wire: Wire) -> dict[str, uuid.UUID]:
    return {
        topic.name: topic.topic_id for topic in wire.request(MetadataRequest(topics=None), version=12).topics
    }
