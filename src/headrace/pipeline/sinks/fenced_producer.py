"""A transactional producer that keeps a fence in the cluster it writes to, within the same transactions.

The last one to open a writer's name owns it: the open transactions of earlier owners are aborted, and their requests
are fenced. So the fence that is read after opening stays true until this owner changes it, or loses the name.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from msgspec import Struct

from headrace.kafka.cluster import requesting
from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry
from headrace.kafka.settings import client_config
from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.sinks import offset_fence

TIMEOUT_S = 60.0
"""How long a broker may be unavailable, such as during a restart, before a batch fails."""

TRANSACTION_TIMEOUT_MS = 300_000
"""A transaction is open while a task computes its rows. A writer that was killed and never started again
blocks readers of committed data for as long. A cluster allows 15 minutes at most by default."""

ABORT_TIMEOUT_S = 5.0
"""An abort lets readers continue earlier. If it fails, the next owner of the name aborts."""

WAITING_BYTES_MAX = 64 * 1024 * 1024
WAITING_MESSAGES_MAX = 400_000
"""Records in flight. The bound of the client is above this, so that its queue is never full."""

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
    # Full batches; a commit sends the rest without waiting.
    "linger.ms": 20,
    "delivery.report.only.error": True,
}

# Errors are raised, with their reason; the client would print them as well.
_LOG = logging.getLogger("headrace.pipeline.kafka")
_LOG.addHandler(logging.NullHandler())


class Target(Struct, frozen=True, kw_only=True):
    """The topic that a producer writes to."""

    topic: str
    bootstrap: str
    message_bytes_max: int
    compression: str = "none"
    timeout_s: float = TIMEOUT_S

    def producer_config(self) -> dict[str, Any]:
        """For the topic's limit, a batch of records counts as a message."""
        return {
            "message.max.bytes": max(self.message_bytes_max, CLIENT_BATCH_BYTES),
            "batch.size": min(self.message_bytes_max, CLIENT_BATCH_BYTES),
            "compression.type": self.compression,
        }


class FencedProducer:
    """Owns a writer's name until another one is created with the same name.

    A `SinkUnavailable` means that a batch could not be written. All of it is visible or nothing: the fence shows which,
    when the name is opened again.
    """

    def __init__(self, writer: str, target: Target) -> None:
        self.writer = writer
        self.target = target
        self._partition = TopicPartition(target.topic, 0)
        self._client_config = client_config(target.bootstrap)
        self._deadline_s = 0.0
        self._text = ""
        self._groups: dict[int, Consumer] = {}
        self._waiting_bytes = 0
        self._waiting_messages = 0
        self._producer = Producer(
            {
                **_PRODUCER_CONFIG,
                **target.producer_config(),
                **self._client_config,
                "transactional.id": writer,
            },
            logger=_LOG,
        )
        self._group(0)  # connects while the producer does
        with self._errors("can't be opened"):
            self._producer.init_transactions(target.timeout_s)
            self.kept = self._read()

    # One transaction

    def begin(self, batch_id: int, text: str) -> None:
        """Begin a transaction with the fence as its first part: a fenced producer fails before it has read a row."""
        self._deadline_s = time.monotonic() + self.target.timeout_s
        self._text = text
        with self._errors("can't begin a transaction"):
            self._producer.begin_transaction()
            for number, piece in enumerate(offset_fence.cut(text)):
                offset = TopicPartition(self.target.topic, 0, batch_id + 1, metadata=piece)
                group = self._group(number).consumer_group_metadata()
                self._retry(self._producer.send_offsets_to_transaction, [offset], group)

    def produce_many(self, topic: str, messages: list[dict[str, Any]], bytes_count: int) -> None:
        """Messages as `Producer.produce_batch` takes them, without headers."""
        self._make_room(bytes_count, len(messages))
        with self._errors("can't write"):
            if self._producer.produce_batch(topic, messages) != len(messages):
                raise KafkaException(next(each["_error"] for each in messages if "_error" in each))

    def produce(
        self,
        topic: str,
        content: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        **more: Any,
    ) -> None:
        self._make_room(len(content or b"") + len(key or b""), 1)
        try:  # for every message, and cheaper than `_errors`
            self._producer.produce(topic, content, key, headers=[*headers], **more)
        except KafkaException as error:
            raise self._failure("can't write", error.args[0]) from error

    def commit(self) -> None:
        """Make all of it visible. From then on `kept` is the text of this fence."""
        self._deadline_s = time.monotonic() + self.target.timeout_s
        with self._errors("can't commit"):
            self._retry(self._producer.commit_transaction)
        self.kept = self._text
        self._waiting_bytes = self._waiting_messages = 0

    def abort(self) -> None:
        """Abort the transaction, if the cluster can be reached."""
        with self._errors("can't abort"):
            self._producer.abort_transaction(ABORT_TIMEOUT_S)

    def close(self) -> None:
        """Close the connections, without waiting for a response."""
        for consumer in self._groups.values():
            consumer.close()
        self._groups.clear()
        with contextlib.suppress(KafkaException):  # a fenced producer fails here, too
            self._producer.purge()
            self._producer.poll(0)

    # The fence

    def _read(self) -> str | None:
        first = self._read_piece(0)
        if first is None:
            return None
        return offset_fence.join(first, lambda number: self._read_piece(number) or "")

    def _read_piece(self, number: int) -> str | None:
        """The metadata of one group. A cluster that has just started may have no coordinator for it yet."""

        def read() -> str | None:
            with requesting("reading the fence"):
                (kept,) = self._group(number).committed([self._partition], timeout=self.target.timeout_s)
                if kept.error is not None:
                    raise KafkaException(kept.error)
                return kept.metadata if kept.offset >= 0 else None

        return retry(read, timeout_s=self.target.timeout_s)

    def _group(self, number: int) -> Consumer:
        """A consumer that only reads the committed offsets of a group, and names the group in a transaction."""
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
        """Flush before the records in flight exceed their bound."""
        self._waiting_bytes += bytes_count
        self._waiting_messages += messages_count
        if self._waiting_bytes <= WAITING_BYTES_MAX and self._waiting_messages <= WAITING_MESSAGES_MAX:
            return
        left = self._producer.flush(self.target.timeout_s)
        if left:
            raise SinkUnavailable(
                f"{self.writer}: the broker did not accept {left:,} messages within {self.target.timeout_s:.0f} s",
                hint="is it running, and is its disk full?",
            )
        self._waiting_bytes, self._waiting_messages = bytes_count, messages_count

    def _retry(self, call: Callable[..., object], *arguments: Any) -> None:
        """Retry while the client reports that it may, until the deadline."""
        while True:
            try:
                call(*arguments, max(self._deadline_s - time.monotonic(), 0.1))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= self._deadline_s:
                    raise

    @contextlib.contextmanager
    def _errors(self, problem: str) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._failure(problem, error.args[0]) from error
        except RequestFailed as error:
            raise SinkUnavailable(f"{self.writer} {problem}: {error.message}", hint=_HINT) from error

    def _failure(self, problem: str, cause: KafkaError) -> SinkUnavailable:
        if cause.code() in _FENCED or (cause.fatal() and "fenced" in cause.str().lower()):
            return SinkUnavailable(
                f"{self.writer} {problem}: another process has opened it ({cause.str()})",
                hint="a job runs in one process at a time; stop the other one",
            )
        return SinkUnavailable(f"{self.writer} {problem}: {cause.str()}", hint=_HINT)


_HINT = "the batch can be written again: the fence shows which batches are complete"

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)
