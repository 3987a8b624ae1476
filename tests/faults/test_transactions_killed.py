"""Transactions across the death of their broker: all or nothing, data and offsets together, and nothing hangs."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.log.filesystem import DiskFileSystem
from headrace.log.segment import LOG_SUFFIX
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.testing.wire import Disconnected, Wire
from tests.broker import group_requests
from tests.broker.requests import batch, create_topic, produce
from tests.broker.transaction_requests import (
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)
from tests.faults.broker_process import BrokerProcess

TOPIC = "t"
GROUP = "g"
PARTITIONS = 3
TIMEOUT_S = 60


@pytest.fixture
def killable(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "data")


def committed(wire: Wire, group: str, topic: str) -> int:
    """The offset that a group has committed, as soon as a broker that has just started knows it."""
    TransactionalProducer(wire, "").ask(
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=()),)), 9
    )
    return group_requests.committed(wire, group, topic)


# Between the steps of one transaction


@pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "KIP-890"])
@pytest.mark.parametrize("fate", ["goes on", "is replaced"])
def test_a_transaction_that_was_open_at_the_kill_goes_on_or_is_aborted_by_the_next_instance(
    killable: BrokerProcess, is_classic: bool, fate: str
) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            writer = TransactionalProducer(wire, "tx", is_classic=is_classic)
            writer.init()
            writer.write(TOPIC, b"before")
            writer.commit_offsets(GROUP, {(TOPIC, 0): 5})
        killable.kill()
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert committed_values(wire, TOPIC) == []
            assert committed(wire, GROUP, TOPIC) == -1
            if fate == "goes on":
                writer.wire = wire
                writer.write(TOPIC, b"after", partition=1)
                writer.commit()
                assert committed_values(wire, TOPIC) == [b"before"]
                assert committed_values(wire, TOPIC, partition=1) == [b"after"]
                assert committed(wire, GROUP, TOPIC) == 5
            else:
                TransactionalProducer(wire, "tx").init()
                assert committed_values(wire, TOPIC) == []
                assert last_stable_offset(wire, TOPIC) == 2
                assert committed(wire, GROUP, TOPIC) == -1


def test_a_transaction_that_was_open_at_the_kill_times_out_after_the_start(killable: BrokerProcess) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC)
            writer = TransactionalProducer(wire, "tx", timeout_ms=1_000)
            writer.init()
            writer.write(TOPIC, b"a")
        killable.kill()
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert eventually(lambda: last_stable_offset(wire, TOPIC), 2)
            assert committed_values(wire, TOPIC) == []


def cut_last_batch(folder: Path) -> None:
    """As a power cut would: the last batch of the partition never reached the disk."""
    (segment,) = folder.glob(f"*{LOG_SUFFIX}")
    data = segment.read_bytes()
    position = 0
    starts = []
    while position < len(data):
        starts.append(position)
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    segment.write_bytes(data[: starts[-1]])
    for stale in folder.glob("*.snapshot"):
        stale.unlink()
    DiskFileSystem().sync_directory(str(folder))


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_what_was_decided_before_the_kill_is_finished_by_the_start(
    killable: BrokerProcess, is_commit: bool
) -> None:
    """The decision is on disk, the markers of one partition and of the offsets are not."""
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=2)
            writer = TransactionalProducer(wire, "tx")
            writer.init()
            writer.write(TOPIC, b"a")
            writer.write(TOPIC, b"b", partition=1)
            writer.commit_offsets(GROUP, {(TOPIC, 0): 5})
            writer.commit() if is_commit else writer.abort()
        killable.kill()
        data_dir = killable.data_dir
        # The end of the transaction, the marker of partition 1, and the marker of the offsets.
        for lost in ("__transaction_state-0", f"{TOPIC}-1", "__consumer_offsets-0"):
            cut_last_batch(data_dir / lost)
        killable.start()
        with Wire(killable.bootstrap) as wire:
            assert eventually(lambda: last_stable_offset(wire, TOPIC, partition=1), 2)
            assert committed_values(wire, TOPIC, partition=1) == ([b"b"] if is_commit else [])
            assert committed_values(wire, TOPIC) == ([b"a"] if is_commit else [])
            assert eventually(lambda: committed(wire, GROUP, TOPIC), 5 if is_commit else -1)
            assert last_stable_offset(wire, TOPIC) == 2, "it had its marker, and got no second one"
            writer.wire = wire
            writer.write(TOPIC, b"next")
            writer.commit()


def test_data_of_a_transaction_that_nobody_knows_of_is_aborted_by_the_start(killable: BrokerProcess) -> None:
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC)
            writer = TransactionalProducer(wire, "tx", is_classic=False)
            writer.init()
            writer.write(TOPIC, b"a")
        killable.kill()
        # The data reached the disk, the record that its partition was added did not.
        cut_last_batch(killable.data_dir / "__transaction_state-0")
        killable.start()
        with Wire(killable.bootstrap) as wire:
            produce(wire, TOPIC, batch(b"plain"))
            assert eventually(lambda: committed_values(wire, TOPIC), [b"plain"])


# At random, under load


@dataclass(kw_only=True)
class Copier:
    """Writes numbered transactions, each to all partitions and with an offset, and notes what it was told."""

    bootstrap: str
    name: str
    seed: int
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    began: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        chance = random.Random(self.seed)
        producer = self._fresh()
        while not self.stopping.is_set():
            number = self.began
            self.began += 1
            try:
                producer.begin_transaction()
                for partition in range(PARTITIONS):
                    for part in range(2):
                        value = f"{self.name} {number} {part}"
                        producer.produce(TOPIC, value, partition=partition)
                producer.send_offsets_to_transaction(
                    [TopicPartition(TOPIC, 0, number)], self._group(), TIMEOUT_S
                )
                if chance.random() < 0.3:
                    producer.abort_transaction(TIMEOUT_S)
                    self.aborted.add(number)
                else:
                    producer.commit_transaction(TIMEOUT_S)
                    self.committed.add(number)
            except KafkaException:
                # What became of this one is not known here; a new instance goes on.
                producer = self._fresh()

    def _fresh(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "log_level": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                # librdkafka 2.16 otherwise forgets its brokers when none answers, but goes on sending offsets to the
                # coordinator that it knew: send_offsets_to_transaction then waits for ever.
                "metadata.recovery.strategy": "none",
            }
        )
        while not self.stopping.is_set():
            try:
                producer.init_transactions(TIMEOUT_S)
                break
            except KafkaException as error:
                if not error.args[0].retriable():
                    return self._fresh()
        return producer

    def _group(self) -> object:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.name, "log_level": 0})
        metadata = consumer.consumer_group_metadata()
        consumer.close()
        return metadata


class NewerCopier(Copier):
    """The same in the way of KIP-890, as Java clients of Kafka 4 write."""

    def run(self) -> None:
        chance = random.Random(self.seed)
        while not self.stopping.is_set():
            try:
                with Wire(self.bootstrap) as wire:
                    producer = TransactionalProducer(wire, self.name, is_classic=False)
                    assert producer.init().error_code == 0
                    while not self.stopping.is_set():
                        self._copy(producer, chance)
            except (OSError, Disconnected):
                time.sleep(0.02)  # the broker is away; what became of the last one is not known here

    def _copy(self, producer: TransactionalProducer, chance: random.Random) -> None:
        number = self.began
        self.began += 1
        for partition in range(PARTITIONS):
            values = [f"{self.name} {number} {part}".encode() for part in range(2)]
            producer.write(TOPIC, *values, partition=partition)
        assert producer.commit_offsets(self.name, {(TOPIC, 0): number}) == [0]
        if chance.random() < 0.3:
            producer.abort()
            self.aborted.add(number)
        else:
            producer.commit()
            self.committed.add(number)


def check(bootstrap: str, copiers: list[Copier]) -> None:
    with Wire(bootstrap) as wire:
        seen: dict[str, dict[int, int]] = {copier.name: {} for copier in copiers}
        for partition in range(PARTITIONS):
            for value in committed_values(wire, TOPIC, partition=partition):
                assert value is not None
                name, number, _ = value.decode().split()
                seen[name][int(number)] = seen[name].get(int(number), 0) + 1
        for copier in copiers:
            counts = seen[copier.name]
            partly = {number: count for number, count in counts.items() if count != 2 * PARTITIONS}
            assert not partly, f"{copier.name}: {partly}"
            assert copier.committed <= counts.keys(), "what was acknowledged is there"
            assert not copier.aborted & counts.keys()
            assert committed(wire, copier.name, TOPIC) == max(counts), "offsets go with the data"


@pytest.mark.parametrize("rounds", [3, pytest.param(25, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_transactions_are_all_or_nothing_when_the_broker_is_killed_at_random_under_load(
    killable: BrokerProcess, rounds: int
) -> None:
    chance = random.Random(rounds)
    with killable:
        with Wire(killable.bootstrap) as wire:
            create_topic(wire, TOPIC, partitions=PARTITIONS)
        copiers = [
            Copier(bootstrap=killable.bootstrap, name="old", seed=rounds),
            NewerCopier(bootstrap=killable.bootstrap, name="new", seed=rounds + 1),
        ]
        threads = [threading.Thread(target=copier.run) for copier in copiers]
        for thread in threads:
            thread.start()
        try:
            for _ in range(rounds):
                wait_for_commits(copiers)
                time.sleep(chance.random() * 0.1)
                killable.kill()
                killable.start()
            wait_for_commits(copiers)
        finally:
            for copier in copiers:
                copier.stopping.set()
            for thread in threads:
                thread.join()
        check(killable.bootstrap, copiers)


def wait_for_commits(copiers: list[Copier]) -> None:
    """Until each of them has committed some more: all of them are at work (again)."""
    before = {copier.name: len(copier.committed) for copier in copiers}
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(len(copier.committed) < before[copier.name] + 3 for copier in copiers):
        assert time.monotonic() < deadline_s, [(copier.name, copier.began) for copier in copiers]
        time.sleep(0.01)
