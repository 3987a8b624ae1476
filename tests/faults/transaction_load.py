"""Programs that write numbered transactions for as long as a test disturbs their broker, and what must be true then."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from headrace.testing.wire import Disconnected, Wire
from tests.broker import group_requests
from tests.broker.requests import end_offset
from tests.broker.transaction_requests import (
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)

TOPIC = "t"
PARTITIONS = 3
TIMEOUT_S = 60
ABORTED_SHARE = 0.3
FORGOTTEN = b"forgotten"


def committed(wire: Wire, group: str, topic: str) -> int:
    """The offset that a group has committed, as soon as a broker that has just started knows it."""
    TransactionalProducer(wire, "").request(
        OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=()),)), 9
    )
    return group_requests.committed(wire, group, topic)


def abort(producer: Producer) -> None:
    """librdkafka waits until its reports of the messages that failed are read."""
    while True:
        try:
            return producer.abort_transaction(0.5)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        producer.poll(0)


@dataclass(kw_only=True)
class Writer:
    """Runs in a thread until it is stopped, and notes the responses."""

    bootstrap: str
    name: str
    seed: int
    committed: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    began: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        raise NotImplementedError


class Copier(Writer):
    """Writes each transaction to all partitions and with an offset, with librdkafka."""

    def run(self) -> None:
        chance = random.Random(self.seed)
        producer = self._fresh()
        while not self.stopping.is_set():
            try:
                self._copy(producer, chance)
            except KafkaException as error:
                # What became of this one is not known here.
                producer = self._recovered(producer, error)

    def _copy(self, producer: Producer, chance: random.Random) -> None:
        number = self.began
        self.began += 1
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            for part in range(2):
                producer.produce(TOPIC, f"{self.name} {number} {part}", partition=partition)
        if chance.random() < ABORTED_SHARE:
            # Some batches are in flight then, and their responses may get lost.
            time.sleep(chance.random() * 0.02)
            abort(producer)
            self.aborted.add(number)
            return
        producer.send_offsets_to_transaction([TopicPartition(TOPIC, 0, number)], self._group(), TIMEOUT_S)
        producer.commit_transaction(TIMEOUT_S)
        self.committed.add(number)

    def _recovered(self, producer: Producer, error: KafkaException) -> Producer:
        """As in librdkafka's manual: abort where that is enough, otherwise a new instance."""
        if error.args[0].txn_requires_abort():
            try:
                abort(producer)
                return producer
            except KafkaException:
                pass
        return self._fresh()

    def _fresh(self) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "log_level": 0,
                "retry.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                # librdkafka 2.16 otherwise drops its brokers when none responds, but continues to send offsets to the
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


class Rejected(Exception):
    """The broker returned an error; the outcome of the transaction is unknown."""


def _require(code: int) -> None:
    if code:
        raise Rejected(ErrorCode(code).name)


class NewerCopier(Writer):
    """The same with KIP-890, as Java clients of Kafka 4 write."""

    def run(self) -> None:
        chance = random.Random(self.seed)
        while not self.stopping.is_set():
            try:
                with Wire(self.bootstrap) as wire:
                    producer = TransactionalProducer(wire, self.name, is_classic=False)
                    _require(producer.init().error_code)
                    while not self.stopping.is_set():
                        self._copy(producer, is_commit=chance.random() >= ABORTED_SHARE)
            except (OSError, Disconnected, Rejected):
                time.sleep(0.02)  # the broker is unavailable or rejects; a new instance continues

    def _copy(self, producer: TransactionalProducer, *, is_commit: bool) -> None:
        number = self.began
        self.began += 1
        for partition in range(PARTITIONS):
            values = [f"{self.name} {number} {part}".encode() for part in range(2)]
            _require(producer.send(TOPIC, *values, partition=partition).error_code)
        for code in producer.commit_offsets(self.name, {(TOPIC, 0): number}):
            _require(code)
        answer = producer.end(committed=is_commit)
        _require(answer.error_code)
        producer.use(answer.producer_id, answer.producer_epoch)
        (self.committed if is_commit else self.aborted).add(number)


class Forgetful(Writer):
    """Starts transactions and never ends them: the broker aborts them after their timeout."""

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with Wire(self.bootstrap) as wire:
                    producer = TransactionalProducer(wire, self.name, is_classic=False, timeout_ms=100)
                    _require(producer.init().error_code)
                    self.began += 1
                    _require(producer.send(TOPIC, FORGOTTEN).error_code)
                    self.stopping.wait(0.3)
            except (OSError, Disconnected, Rejected):
                time.sleep(0.02)


@contextmanager
def running(writers: Sequence[Writer]) -> Iterator[None]:
    threads = [threading.Thread(target=writer.run) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.stopping.set()
        for thread in threads:
            thread.join()


def wait_for_commits(copiers: Sequence[Writer]) -> None:
    """Until each of them has committed some more: all of them are at work (again)."""
    before = {copier.name: len(copier.committed) for copier in copiers}
    deadline_s = time.monotonic() + TIMEOUT_S
    while any(len(copier.committed) < before[copier.name] + 3 for copier in copiers):
        assert time.monotonic() < deadline_s, [(copier.name, copier.began) for copier in copiers]
        time.sleep(0.01)


def check(bootstrap: str, copiers: Sequence[Writer], others: Sequence[Writer] = ()) -> None:
    """All or nothing, data and offsets together, and nothing hangs."""
    with Wire(bootstrap) as wire:
        for writer in (*copiers, *others):
            # What it left open is aborted.
            assert TransactionalProducer(wire, writer.name).init().error_code == 0
        seen: dict[str, dict[int, int]] = {copier.name: {} for copier in copiers}
        for partition in range(PARTITIONS):
            end = end_offset(wire, TOPIC, partition=partition)
            assert eventually(partial(last_stable_offset, wire, TOPIC, partition=partition), end)
            for value in committed_values(wire, TOPIC, partition=partition):
                assert value is not None
                assert value != FORGOTTEN
                name, number, _ = value.decode().split()
                seen[name][int(number)] = seen[name].get(int(number), 0) + 1
        for copier in copiers:
            counts = seen[copier.name]
            partly = {number: count for number, count in counts.items() if count != 2 * PARTITIONS}
            assert not partly, f"{copier.name}: {partly}"
            assert copier.committed <= counts.keys(), "what was acknowledged is there"
            assert not copier.aborted & counts.keys()
            assert committed(wire, copier.name, TOPIC) == max(counts), "offsets go with the data"


def figures(copiers: Sequence[Writer]) -> str:
    """For a test with `-s`."""
    began = sum(copier.began for copier in copiers)
    commits = sum(len(copier.committed) for copier in copiers)
    aborts = sum(len(copier.aborted) for copier in copiers)
    return f"{began} transactions started, {commits} acknowledged as committed, {aborts} as aborted"
