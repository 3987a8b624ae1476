"""The topic of a registry: read by a thread of its own, and written by one process at a time.

A write is decided on a state that has all records of the topic, and is one transaction. If another process has taken
the topic since, the transaction fails, this process takes it back, reads to the end and decides again. A write returns
when its records are acknowledged and this process has read them back.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import OffsetSpec
from msgspec import Struct

from headrace.clock import Clock
from headrace.events.errors import EventsError, StoreUnavailable
from headrace.events.fenced_writer import FencedWriter, WriterLost
from headrace.events.partition_reader import record_of
from headrace.events.records import InRecord, OutRecord
from headrace.events.topics import message_bytes_max
from headrace.kafka.cluster import BROKERS_DEFAULT, Cluster, Partition
from headrace.kafka.errors import RequestFailed

TAKEOVERS_MAX = 20
"""Two gateways that write at the same time take the topic from each other. Each gets its turn within a few attempts."""

BACK_OFF_S_MAX = 0.1
"""Random, so that two gateways do not keep step."""

TOPIC_APPEARS_S_MAX = 15.0

FETCH_WAIT_MS = 50
"""Of a fetch without records. That a marker of a transaction was the last one shows in the fetch after it."""

POLL_S = 0.05

BATCH_RECORDS_MAX = 1000

WRITE_HEADER = "headrace-write"
"""Of a write without a response: whether it was committed shows in the topic."""

_CONSUMER: dict[str, Any] = {
    "group.id": "headrace-registry",  # the client requires one, and nothing is committed
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": FETCH_WAIT_MS,
}

logger = logging.getLogger("headrace.gateway")

T = TypeVar("T")


class Change(Struct, frozen=True):
    """A record to write: None is a tombstone."""

    key: bytes
    value: bytes | None


class Decision(Struct, Generic[T], frozen=True):
    changes: Sequence[Change]
    result: T


class StoreFailed(EventsError):
    """The topic can't be read or written. Nothing was written, unless the message says otherwise."""


class RegistryLog:
    """`apply` gets each record, one at a time, while no decision is made. Threads may share it."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        apply: Callable[[InRecord], None],
        *,
        clock: Clock,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._apply = apply
        self._clock = clock
        self._timeout_s = timeout_s
        self._partition = Partition(topic, 0)
        self._message_bytes_max = 0
        self._writer: FencedWriter | None = None
        self._write_lock = threading.Lock()
        self._moved = threading.Condition(threading.RLock())
        """Guards what follows, and the state behind `apply`."""
        self._position = 0
        self._awaited_write = ""
        self._has_awaited_write = False
        self._failure: StoreFailed | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._follow, name=f"registry-{topic}", daemon=True)

    def start(self) -> None:
        """Create the topic if there is none, and read all of it."""
        try:
            self._prepare()
        except RequestFailed as error:
            raise StoreFailed(error.message, hint=error.hint) from error
        self._thread.start()
        self.catch_up()

    def close(self) -> None:
        with self._moved:
            self._is_closed = True
            self._moved.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        with self._write_lock:
            self._disown()

    # Reading

    def reading(self) -> contextlib.AbstractContextManager[object]:
        """While it is held, no record is applied."""
        if self._failure is not None:
            raise self._failure
        return self._moved

    def catch_up(self) -> bool:
        """Wait until every record that is committed now was applied; whether there was one to wait for."""
        end = self._end()
        with self._moved:
            is_behind = self._position < end
        self._wait_for(lambda: self._position >= end, f"offset {end}")
        return is_behind

    def _end(self) -> int:
        try:
            found = self._cluster.offsets(
                [self._partition], OffsetSpec.latest(), isolation=IsolationLevel.READ_UNCOMMITTED
            )
        except RequestFailed as error:
            raise StoreFailed(error.message, hint=error.hint) from error
        return found[self._partition]

    def _wait_for(self, is_reached: Callable[[], bool], what: str) -> None:
        with self._moved:
            self._moved.wait_for(
                lambda: is_reached() or self._failure is not None or self._is_closed, self._timeout_s
            )
            if self._failure is not None:
                raise self._failure
            if not is_reached():
                raise StoreFailed(
                    f"{self._topic} was not read up to {what} within {self._timeout_s:.0f} s",
                    hint="is the broker overloaded, or does another program have an open transaction there?",
                )

    def _follow(self) -> None:
        consumer = Consumer(self._cluster.client_config(**_CONSUMER))
        try:
            consumer.assign([TopicPartition(self._topic, 0, 0)])
            while not self._is_closed:
                first = consumer.poll(POLL_S)
                for message in [] if first is None else [first, *consumer.consume(BATCH_RECORDS_MAX, 0)]:
                    self._on_message(message)
        except Exception as error:
            logger.exception("%s can't be read any more", self._topic)
            with self._moved:
                self._failure = StoreFailed(
                    f"{self._topic} can't be read: {error}", hint="restart the gateway"
                )
                self._moved.notify_all()
        finally:
            consumer.close()

    def _on_message(self, message: Any) -> None:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
                raise StoreUnavailable(
                    f"records are missing: {error.str()}", hint="was the topic deleted while the gateway ran?"
                )
            logger.info("%s: %s", self._topic, error.str())  # the client tries again
            return
        with self._moved:
            if error is None:
                record = record_of(message)
                self._apply(record)
                write = record.headers.get(WRITE_HEADER, b"").decode(errors="replace")
                self._has_awaited_write |= bool(write) and write == self._awaited_write
            self._position = max(self._position, message.offset() + (error is None))
            self._moved.notify_all()

    # Writing

    def write(self, decide: Callable[[], Decision[T]]) -> T:
        """Decide on the current state, and write what is decided; all of it, or nothing. `decide` may run again, and
        its errors are raised only if the state that it saw was complete."""
        with self._write_lock:
            deadline_s = time.monotonic() + 2 * self._timeout_s
            for attempt in range(TAKEOVERS_MAX):
                is_current = self._own()
                decision, error = self._decide(decide)
                if decision is None or not decision.changes:
                    # No fence checks what is not written: the result may come from an old state.
                    if not is_current and self.catch_up():
                        continue
                    if decision is None:
                        raise error or AssertionError
                    return decision.result
                lost = self._commit(decision.changes)
                if lost is None or self._was_committed(lost):
                    return decision.result
                logger.info("%s: %s", self._topic, lost)
                if time.monotonic() > deadline_s:
                    break
                time.sleep(random.uniform(0, BACK_OFF_S_MAX) * min(attempt, 5))
        raise StoreFailed(
            f"another gateway takes {self._topic} again and again; nothing was written", hint="try again"
        )

    def _decide(self, decide: Callable[[], Decision[T]]) -> tuple[Decision[T] | None, Exception | None]:
        try:
            return decide(), None
        except Exception as error:
            return None, error

    def _own(self) -> bool:
        """Become the one writer, and read to the end; whether that was done now."""
        if self._writer is not None:
            return False
        try:
            self._writer = FencedWriter(
                self._cluster.client_config(),
                topic=self._topic,
                partition=0,
                message_bytes_max=self._message_bytes_max,
                timeout_s=self._timeout_s,
            )
            self.catch_up()
        except BaseException:
            self._disown()
            raise
        return True

    def _disown(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _commit(self, changes: Sequence[Change]) -> WriterLost | None:
        assert self._writer is not None
        write = uuid.uuid4().hex
        with self._moved:
            self._awaited_write, self._has_awaited_write = write, False
        records = [
            OutRecord(
                topic=self._topic,
                key=change.key,
                value=change.value,
                headers=((WRITE_HEADER, write.encode()),),
                timestamp_ms=self._clock.now_ms(),
            )
            for change in changes
        ]
        try:
            offsets = self._writer.commit(records)
        except WriterLost as lost:
            self._disown()
            return lost
        except EventsError:
            self._disown()
            raise
        self._wait_for(lambda: self._position > offsets[-1], f"offset {offsets[-1]}")
        return None

    def _was_committed(self, lost: WriterLost) -> bool:
        """Taking the topic back ends the transaction, one way or the other; then the topic has it or not."""
        try:
            self._own()
        except EventsError as error:
            raise StoreFailed(
                f"{lost}; whether it is written is unknown: {error.message}",
                hint="try again when the broker is available: what is registered already keeps its id",
            ) from error
        with self._moved:
            return self._has_awaited_write

    def _prepare(self) -> None:
        partitions = self._cluster.topics().get(self._topic)
        if partitions is None:
            self._cluster.create_topic(
                self._topic,
                partitions=1,
                replication_factor=BROKERS_DEFAULT,
                config={"cleanup.policy": "compact"},
                exist_ok=True,
            )
            found = self._cluster.require_topics([self._topic], appear_s_max=TOPIC_APPEARS_S_MAX)
            partitions = found[self._topic]
        if len(partitions) != 1:
            raise StoreFailed(
                f"{self._topic} has {len(partitions)} partitions", hint="a registry needs a topic with one"
            )
        policy = self._cluster.configs("topic", self._topic)["cleanup.policy"].value
        if policy != "compact":
            raise StoreFailed(
                f"{self._topic} has cleanup.policy={policy}, which deletes schemas",
                hint=f"`headrace topic alter {self._topic} --config cleanup.policy=compact`",
            )
        self._message_bytes_max = message_bytes_max(self._cluster, self._topic)
