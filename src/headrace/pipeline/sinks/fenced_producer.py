"""A transactional producer that keeps a fence in the cluster it writes to, within the same transactions.

Whoever is last to open a writer's name owns it: all that its earlier owners left open is aborted, and what
they still send is refused. So the fence that is read after opening stays true until this owner changes it, or
loses the name.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.errors import HeadraceError
from headrace.kafka.cluster import requesting
from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry
from headrace.kafka.settings import client_config
from headrace.pipeline.sinks import offset_fence

TRANSACTION_TIMEOUT_MS = 300_000
"""A transaction is open while a task computes its rows. A writer that was killed and never started again
blocks readers of committed data for as long. A cluster allows 15 minutes at most by default."""

ABORT_TIMEOUT_S = 5.0
"""Aborting is a kindness to readers. If it fails, the next owner of the name does it."""

WAITING_BYTES_MAX = 64 * 1024 * 1024
WAITING_MESSAGES_MAX = 400_000
"""What a producer may hold that the broker has not taken yet. The client's own bound is above this, so that
it never refuses."""

CLIENT_BATCH_BYTES = 1_000_000
"""The default of the client, and of a topic."""

_PRODUCER_CONFIG: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    # The same key goes to the same partition as with a Java client, Spark's own sink included.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 10_000_000,
    "queue.buffering.max.kbytes": 2_097_151,
    # Full batches; a commit sends what waits without waiting.
    "linger.ms": 20,
    "delivery.report.only.error": True,
}

# Errors are raised, with their reason; the client would print them as well.
_LOG = logging.getLogger("headrace.pipeline.kafka")
_LOG.addHandler(logging.NullHandler())


def size_limits(message_bytes_max: int) -> dict[str, int]:
    """The client's limits for a topic that takes as much. For the topic, a batch of records counts as a message."""
    return {
        "message.max.bytes": max(message_bytes_max, CLIENT_BATCH_BYTES),
        "batch.size": min(message_bytes_max, CLIENT_BATCH_BYTES),
    }


class TransactionFailed(HeadraceError):
    """A batch could not be written. Nothing of it is visible, or all of it: the fence tells, when the name is
    opened again."""


class FencedProducer:
    """Owns a writer's name from its making until somebody else makes another."""

    def __init__(
        self,
        writer: str,
        *,
        topic: str,
        bootstrap: str,
        config: Mapping[str, Any],
        producer_config: Mapping[str, Any],
        timeout_s: float,
    ) -> None:
        self.writer = writer
        self._place = TopicPartition(topic, 0)
        self._timeout_s = timeout_s
        self._client_config = client_config(bootstrap, config)
        self._deadline_s = 0.0
        self._text = ""
        self._groups: dict[int, Consumer] = {}
        self._waiting_bytes = 0
        self._waiting_messages = 0
        self._producer = Producer(
            {**_PRODUCER_CONFIG, **producer_config, **self._client_config, "transactional.id": writer},
            logger=_LOG,
        )
        self._group(0)  # connects while the producer does
        try:
            self._producer.init_transactions(timeout_s)
            self.kept = self._read()
        except KafkaException as error:
            raise self._failure("can't be opened", error) from error
        except RequestFailed as error:
            raise TransactionFailed(f"{writer} can't be opened: {error.message}", hint=_HINT) from error

    # One transaction

    def begin(self, batch_id: int, text: str) -> None:
        """Begin a transaction, with the fence as its first part: who lost the name hears of it before he has
        read a row."""
        self._deadline_s = time.monotonic() + self._timeout_s
        self._text = text
        try:
            self._producer.begin_transaction()
            for number, piece in enumerate(offset_fence.cut(text)):
                place = TopicPartition(self._place.topic, 0, batch_id + 1, metadata=piece)
                group = self._group(number).consumer_group_metadata()
                self._insist(self._producer.send_offsets_to_transaction, [place], group)
        except KafkaException as error:
            raise self._failure("can't begin a transaction", error) from error

    def produce_many(self, topic: str, messages: list[dict[str, Any]], bytes_count: int) -> None:
        """Messages as `Producer.produce_batch` takes them, without headers."""
        self._make_room(bytes_count, len(messages))
        try:
            taken = self._producer.produce_batch(topic, messages)
        except KafkaException as error:
            raise self._failure("can't write", error) from error
        if taken != len(messages):
            refused = next(message["_error"] for message in messages if "_error" in message)
            raise self._failure("can't write", KafkaException(refused))

    def produce(
        self,
        topic: str,
        content: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        **more: Any,
    ) -> None:
        self._make_room(len(content or b"") + len(key or b""), 1)
        try:
            self._producer.produce(topic, content, key, headers=[*headers], **more)
        except KafkaException as error:
            raise self._failure("can't write", error) from error

    def commit(self) -> None:
        """Make all of it visible. From then on `kept` is the text of this fence."""
        self._deadline_s = time.monotonic() + self._timeout_s
        try:
            self._insist(self._producer.commit_transaction)
        except KafkaException as error:
            raise self._failure("can't commit", error) from error
        self.kept = self._text
        self._waiting_bytes = self._waiting_messages = 0

    def abort(self) -> None:
        """Undo what was produced, as far as the cluster can be reached."""
        try:
            self._producer.abort_transaction(ABORT_TIMEOUT_S)
        except KafkaException as error:
            raise self._failure("can't abort", error) from error

    def close(self) -> None:
        """Forget the connections. What is open is aborted, if that can be done at once."""
        for consumer in self._groups.values():
            consumer.close()
        self._groups.clear()
        with contextlib.suppress(KafkaException):  # the writer that lost the name fails with the same error
            self._producer.purge()
            self._producer.poll(0)

    # The fence

    def _read(self) -> str | None:
        first = self._read_piece(0)
        return (
            None if first is None else offset_fence.join(first, lambda number: self._read_piece(number) or "")
        )

    def _read_piece(self, number: int) -> str | None:
        """What one group keeps. A cluster that has just started may have no coordinator for it yet."""

        def read() -> str | None:
            with requesting("reading the fence"):
                (kept,) = self._group(number).committed([self._place], timeout=self._timeout_s)
                if kept.error is not None:
                    raise KafkaException(kept.error)
                return kept.metadata if kept.offset >= 0 else None

        return retry(read, timeout_s=self._timeout_s)

    def _group(self, number: int) -> Consumer:
        """A consumer that consumes nothing: it reads a group's offsets, and stands for the group in a transaction."""
        if number not in self._groups:
            self._groups[number] = Consumer(
                {
                    **self._client_config,
                    "group.id": offset_fence.group_name(self.writer, number),
                    # Offsets of a transaction that is being decided are waited for.
                    "isolation.level": "read_committed",
                    "enable.auto.commit": False,
                },
                logger=_LOG,
            )
        return self._groups[number]

    # The client

    def _make_room(self, bytes_count: int, messages_count: int) -> None:
        """Let the broker take what waits, before more comes than may wait."""
        self._waiting_bytes += bytes_count
        self._waiting_messages += messages_count
        if self._waiting_bytes <= WAITING_BYTES_MAX and self._waiting_messages <= WAITING_MESSAGES_MAX:
            return
        left = self._producer.flush(self._timeout_s)
        if left:
            raise TransactionFailed(
                f"{self.writer}: the broker did not take {left:,} messages within {self._timeout_s:.0f} s",
                hint="is it running, and is its disk full?",
            )
        self._waiting_bytes, self._waiting_messages = bytes_count, messages_count

    def _insist(self, call: Any, *arguments: Any) -> None:
        """A call that the client says may be made again is made again, until its time is up."""
        while True:
            try:
                call(*arguments, max(self._deadline_s - time.monotonic(), 0.1))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= self._deadline_s:
                    raise

    def _failure(self, what: str, error: KafkaException) -> TransactionFailed:
        cause: KafkaError = error.args[0]
        if cause.code() in _FENCED or (cause.fatal() and "fenced" in cause.str().lower()):
            return TransactionFailed(
                f"{self.writer} {what}: another process has opened it ({cause.str()})",
                hint="a job runs in one process at a time; stop the other one",
            )
        return TransactionFailed(
            f"{self.writer} {what}: {cause.str()}",
            hint=_HINT,
        )


_HINT = "it can be written again: the fence says which batches are there"

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
