"""The process that delivers webhooks, or its broker, is killed under load: every record is delivered, with one id."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.outgoing.origin import commit_start
from headrace.webhooks.outgoing.target import Target
from tests.faults.broker_process import BrokerProcess
from tests.webhooks.outgoing.conftest import Receiver, receiver, target_of, wait_until

__all__ = ["receiver"]

pytestmark = pytest.mark.timeout(240)

TOPIC = "orders"
KEYS = 20
ROUNDS = 2
RECORDS = 1_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "broker") as broker:
        yield broker


class Runner:
    """`headrace webhook out run`."""

    def __init__(self, data_dir: Path, bootstrap: str) -> None:
        self._command = [sys.executable, "-m", "headrace", "webhook", "out", "run"]
        self._command += [
            "--data-dir",
            str(data_dir),
            "--bootstrap",
            bootstrap,
            "--set",
            "retry_ms_first=200",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(self._command, stdout=quiet, stderr=quiet)

    def kill(self) -> None:
        """kill -9"""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


class Writer:
    """Writes numbers, each to the partition of its key."""

    def __init__(self, bootstrap: str) -> None:
        self.numbers: list[int] = []
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )

    def write(self, count: int) -> None:
        numbers = range(len(self.numbers), len(self.numbers) + count)
        for number in numbers:
            self._producer.produce(TOPIC, b"%d" % number, b"%d" % (number % KEYS))
        assert self._producer.flush(60) == 0
        self.numbers += numbers


@contextlib.contextmanager
def delivering(
    broker: BrokerProcess, receiver: Receiver, folder: Path, *, ordered: bool = False, is_queue: bool = False
) -> Iterator[tuple[Runner, Writer]]:
    cluster = Cluster(broker.bootstrap, timeout_s=15)
    cluster.create_topic(TOPIC, partitions=3)
    source = {"queue": TOPIC} if is_queue else {"ordered_by_key": ordered}
    target = target_of(TOPIC, receiver.url(), parallel=8, **source)
    commit_start(cluster, target, "now")
    Catalog(folder, "out", Target).add(target)
    runner, writer = Runner(folder, broker.bootstrap), Writer(broker.bootstrap)
    runner.start()
    try:
        yield runner, writer
    finally:
        runner.kill()


def under_load(receiver: Receiver, writer: Writer) -> None:
    """Some records of many are delivered."""
    before = len(receiver.received())
    writer.write(RECORDS)
    wait_until(lambda: len(receiver.received()) > before + RECORDS // 10)


def check_all(receiver: Receiver, writer: Writer) -> None:
    wait_until(
        lambda: set(writer.numbers) == {int(each) for each in receiver.bodies()}, "records are missing"
    )
    ids = defaultdict(set)
    for each in receiver.received():
        ids[each.body].add(each.id)
    assert all(len(each) == 1 for each in ids.values()), "a record has two ids"
    assert len({*map(frozenset, ids.values())}) == len(ids), "two records have one id"


@pytest.mark.parametrize("ordered", [pytest.param(False, marks=pytest.mark.slow), True])
def test_killed_process_loses_nothing_and_repeats_ids(
    broker: BrokerProcess, receiver: Receiver, tmp_path: Path, ordered: bool
) -> None:
    with delivering(broker, receiver, tmp_path / "data", ordered=ordered) as (runner, writer):
        for _ in range(ROUNDS):
            under_load(receiver, writer)
            runner.kill()
            runner.start()
        under_load(receiver, writer)
        check_all(receiver, writer)
    if ordered:
        check_order(receiver)


def check_order(receiver: Receiver) -> None:
    """The first delivery of each record comes after those before it of its key."""
    firsts: dict[int, list[int]] = defaultdict(list)
    for number in dict.fromkeys(int(each) for each in receiver.bodies()):
        firsts[number % KEYS].append(number)
    assert all(each == sorted(each) for each in firsts.values())


def test_killed_broker_loses_nothing_and_repeats_ids(
    broker: BrokerProcess, receiver: Receiver, tmp_path: Path
) -> None:
    with delivering(broker, receiver, tmp_path / "data", ordered=True) as (_runner, writer):
        for _ in range(ROUNDS):
            under_load(receiver, writer)
            broker.kill()
            broker.start()
        under_load(receiver, writer)
        check_all(receiver, writer)
    check_order(receiver)


@pytest.mark.parametrize("victim", ["process", "broker"])
def test_messages_of_a_queue_are_delivered_with_their_ids_although_one_of_them_is_killed(
    broker: BrokerProcess, receiver: Receiver, tmp_path: Path, victim: str
) -> None:
    with delivering(broker, receiver, tmp_path / "data", is_queue=True) as (runner, writer):
        under_load(receiver, writer)
        killed = broker if victim == "broker" else runner
        killed.kill()
        killed.start()
        under_load(receiver, writer)
        check_all(receiver, writer)
