"""Handles the commands that any process sends: a member of a consumer group that owns the partitions it is assigned.

Events, rejections, replies and the position in the topic of commands are committed in one transaction, so a command is
handled once, whichever process fails. A rebalance moves partitions; the fence makes sure that the previous owner
writes nothing more.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from headrace.events.aggregate import check_aggregate_id
from headrace.events.commands import Reply, bad_command, read_command, reply_record
from headrace.events.decisions import Command, Handled, Transaction
from headrace.events.errors import (
    EventsError,
    InvalidEvent,
    OutcomeUnknown,
    StoreUnavailable,
    WriterFenced,
)
from headrace.events.fenced_writer import GroupOffsets
from headrace.events.partition_reader import record_of
from headrace.events.partitioner import partition_of
from headrace.events.records import InRecord
from headrace.events.store import EventStore
from headrace.events.topics import prepare_command_topics

S = TypeVar("S")
C = TypeVar("C")
E = TypeVar("E")

BATCH_COMMANDS_MAX = 500
"""Commands of one transaction. More of them delay the replies of the first."""

SESSION_TIMEOUT_MS = 10_000
"""After this time without a heartbeat, the partitions of a killed worker move to another one."""

POLL_S = 0.5
BACK_OFF_S = 0.2

logger = logging.getLogger("headrace.events")


class CommandWorker(Generic[S, C, E]):
    """`run` handles commands until `stop` is called, from another thread or a signal handler.

    All workers of a store have the same group; the store is used by this worker only.
    """

    def __init__(
        self,
        store: EventStore[S, C, E],
        *,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        batch_commands_max: int = BATCH_COMMANDS_MAX,
    ) -> None:
        self._store = store
        self._batch_commands_max = batch_commands_max
        self._stopping = threading.Event()
        # Kept here, because the client's own list can't be read by a thread other than the one that polls.
        self._assigned: set[int] = set()
        prepare_command_topics(store.cluster, store.topics, store.partitions)
        self._consumer = Consumer(
            {
                **store.cluster.client_config(),
                "group.id": worker_group(store.topics.events),
                "session.timeout.ms": session_timeout_ms,
                # A member learns of a rebalance with its next heartbeat.
                "heartbeat.interval.ms": max(session_timeout_ms // 10, 100),
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                # Partitions that stay keep their writer and their index.
                "partition.assignment.strategy": "cooperative-sticky",
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the group: its other members get the partitions immediately."""
        self._consumer.close()

    def stop(self) -> None:
        """Have `run` return after the commands in flight."""
        self._stopping.set()

    def assigned(self) -> list[int]:
        """The partitions whose commands this worker handles at the moment."""
        return sorted(self._assigned)

    def run(self) -> None:
        """Handle commands until `stop`. An unavailable broker is waited for; a topic that can't be used is an error."""
        self._consumer.subscribe(
            [self._store.topics.commands],
            on_assign=self._on_assign,
            on_revoke=self._on_revoke,
            on_lost=self._on_revoke,
        )
        while not self._stopping.is_set():
            for number, batch in self._next().items():
                try:
                    self._process(number, batch)
                except (StoreUnavailable, OutcomeUnknown, WriterFenced) as error:
                    logger.warning("commands of partition %s are processed again: %s", number, error)
                    self._restart(number)

    def _next(self) -> dict[int, list[InRecord]]:
        """Commands that were read, by partition."""
        first = self._consumer.poll(POLL_S)
        if first is None:
            return {}
        messages = [first, *self._consumer.consume(self._batch_commands_max - 1, 0)]
        batches: dict[int, list[InRecord]] = {}
        for message in messages:
            error = message.error()
            if error is None:
                batches.setdefault(message.partition() or 0, []).append(record_of(message))
            elif error.fatal() or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise StoreUnavailable(f"{self._store.topics.commands} can't be read: {error.str()}")
        return batches

    def _process(self, number: int, batch: Sequence[InRecord]) -> None:
        _, decisions = self._store.part(number)
        position = TopicPartition(self._store.topics.commands, number, batch[-1].offset + 1)
        positions = GroupOffsets(offsets=[position], metadata=self._consumer.consumer_group_metadata())

        def work(transaction: Transaction[S, C, E]) -> None:
            for record in batch:
                self._handle(transaction, record)

        try:
            decisions.transact(work, positions=positions, takeover=False)
        except InvalidEvent:
            if len(batch) == 1:
                raise
            # Each command fits, and all together are too large for one transaction.
            self._process(number, batch[: len(batch) // 2])
            self._process(number, batch[len(batch) // 2 :])

    def _handle(self, transaction: Transaction[S, C, E], record: InRecord) -> None:
        try:
            command, reply_partition = read_command(record)
            self._check_place(record)
        except EventsError as error:
            transaction.reject(bad_command(record), error)
            return
        handled = self._outcome(transaction, command)
        if reply_partition is not None and reply_partition < self._store.partitions:
            transaction.draft.records.append(
                reply_record(
                    self._store.topics.replies,
                    _reply(handled),
                    partition=reply_partition,
                    timestamp_ms=self._store.clock.now_ms(),
                )
            )

    def _check_place(self, record: InRecord) -> None:
        """An event in another partition than that of its key would make the store unusable."""
        right = partition_of(check_aggregate_id((record.key or b"").decode()), self._store.partitions)
        if right != record.partition:
            raise EventsError(
                f"{record.topic}-{record.partition}@{record.offset}: its key belongs to partition {right}",
                hint="send commands with CommandSender, or with the partitioner murmur2",
            )

    def _outcome(self, transaction: Transaction[S, C, E], command: Command) -> Handled:
        try:
            return transaction.handle(command)
        except sqlite3.Error:
            raise  # the index has failed, not the command
        except Exception as error:
            # Also an error of `decide`: one command must not block all that follow.
            if not isinstance(error, EventsError):
                logger.exception("command %s of %s can't be decided", command.id, command.aggregate_id)
            rejection = transaction.reject(command, error)
            return Handled(
                aggregate_id=command.aggregate_id, command_id=command.id, version=0, rejection=rejection
            )

    def _restart(self, number: int) -> None:
        """Continue from the committed position: the transaction was committed, or all of it is processed again."""
        partition, _ = self._store.part(number)
        partition.disown()
        time.sleep(BACK_OFF_S)
        wanted = TopicPartition(self._store.topics.commands, number)
        while number in self._assigned and not self._stopping.is_set():
            try:
                # Aborts a commit that never arrived: the broker returns no position while it is open.
                partition.own()
                (found,) = self._consumer.committed([wanted], timeout=self._store.setup.timeout_s)
                if found.error is not None:
                    raise KafkaException(found.error)
                wanted.offset = found.offset if found.offset >= 0 else OFFSET_BEGINNING
                self._consumer.seek(wanted)
                return
            except (KafkaException, StoreUnavailable) as error:
                logger.warning("the position in %s-%s can't be read: %s", wanted.topic, number, error)
                time.sleep(BACK_OFF_S)

    def _on_assign(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            # A killed worker may have left a transaction with its position. The broker returns no position while it
            # is open, which may be a minute; opening the partition aborts it.
            with contextlib.suppress(StoreUnavailable):
                self._store.part(each.partition)[0].own()
            self._assigned.add(each.partition)

    def _on_revoke(self, _: Any, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self._assigned.discard(each.partition)
            self._store.part(each.partition)[0].disown()


def worker_group(topic: str) -> str:
    return f"headrace-events-{topic}"


def _reply(handled: Handled) -> Reply:
    rejection = handled.rejection
    return Reply(
        command_id=handled.command_id,
        aggregate_id=handled.aggregate_id,
        version=handled.version,
        reason=None if rejection is None else rejection.reason,
        is_error=rejection is not None and rejection.is_error,
        is_repeated=handled.is_repeated,
    )
