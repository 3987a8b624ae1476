"""The one writer of a partition: a producer whose transactional id is the partition's.

The last one to open it owns the partition. The broker aborts the open transaction of the previous owner, and rejects
whatever that one sends later. Kafka has no compare-and-append: this is what stands in for it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.events.errors import EventsError, InvalidEvent, StoreUnavailable
from headrace.events.records import OutRecord, check_size

TRANSACTION_TIMEOUT_MS = 60_000
"""A transaction is open for milliseconds. A writer that was killed blocks readers until the next owner opens the
partition, or for as long as this."""

TRANSACTION_BYTES_MAX = 64 * 1024 * 1024
"""Of one append. Its records are in memory, here and in the client."""

CLIENT_BATCH_BYTES = 1_000_000
"""The default of the client, and of a topic."""

_CONFIG: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
    "linger.ms": 0,  # a commit waits for its records
}

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)

_FOLLOWING = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER)

# Errors are raised, with their reason; the client would print them as well.
_LOG = logging.getLogger("headrace.events.kafka")
_LOG.addHandler(logging.NullHandler())


class WriterLost(Exception):
    """The writer can't be used any more. If it failed during the commit, only the log shows the outcome."""

    def __init__(self, cause: str, *, is_fenced: bool) -> None:
        super().__init__(cause)
        self.is_fenced = is_fenced


class GroupOffsets(Struct, frozen=True, kw_only=True):
    """Positions of a consumer group, which are committed with the records. `metadata` is the consumer's own."""

    offsets: Sequence[TopicPartition]
    metadata: Any


def transactional_id(topic: str, partition: int) -> str:
    return f"headrace-events-{topic}-{partition}"


class FencedWriter:
    """Owns the partition from its creation until another one is created for the same partition."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        *,
        topic: str,
        partition: int,
        message_bytes_max: int,
        timeout_s: float,
    ) -> None:
        self._name = transactional_id(topic, partition)
        self._partition = partition
        self._message_bytes_max = message_bytes_max
        self._timeout_s = timeout_s
        self._producer = Producer(
            {
                **client_config,
                **_CONFIG,
                "transactional.id": self._name,
                # For the limit of the topic, a batch of records counts as a message.
                "message.max.bytes": max(message_bytes_max, CLIENT_BATCH_BYTES),
                "batch.size": min(message_bytes_max, CLIENT_BATCH_BYTES),
            },
            logger=_LOG,
        )
        try:
            self._retry(self._producer.init_transactions)
        except KafkaException as error:
            self.close()
            raise StoreUnavailable(
                f"{self._name} can't be opened: {error.args[0].str()}", hint="is the broker running?"
            ) from error

    def commit(self, records: Sequence[OutRecord], positions: GroupOffsets | None = None) -> list[int]:
        """Write all records and positions in one transaction; the offset of each record.

        InvalidEvent and StoreUnavailable mean that nothing is written. WriterLost means that the log shows whether it
        was written. After each of them the writer has to be opened again: on Apache Kafka, the client's sequence
        numbers do not fit any more after a rejected record.
        """
        self.check_sizes(records)
        delivered: dict[int, int] = {}
        failures: list[KafkaError] = []

        def on_delivery(number: int, error: KafkaError | None, message: KafkaMessage) -> None:
            if error is None:
                delivered[number] = message.offset() or 0
            else:
                failures.append(error)

        try:
            self._producer.begin_transaction()
            for number, record in enumerate(records):
                self._produce(number, record, on_delivery)
            if positions is not None:
                self._retry(
                    self._producer.send_offsets_to_transaction, list(positions.offsets), positions.metadata
                )
            self._retry(self._producer.commit_transaction)
        except KafkaException as error:
            raise self._abort(error.args[0], failures) from error
        return [delivered[number] for number in range(len(records))]

    def check_sizes(self, records: Sequence[OutRecord]) -> None:
        """InvalidEvent if a record or all of them are too large."""
        for record in records:
            check_size(record, self._message_bytes_max)
        if (total := sum(record.size_bytes for record in records)) > TRANSACTION_BYTES_MAX:
            raise InvalidEvent(
                f"the events of one append have {total:,} bytes", hint=f"at most {TRANSACTION_BYTES_MAX:,}"
            )

    def close(self) -> None:
        with contextlib.suppress(KafkaException):  # a fenced producer fails here, too
            self._producer.purge()
            self._producer.poll(0)

    def _produce(self, number: int, record: OutRecord, on_delivery: Any) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                self._producer.produce(
                    record.topic,
                    record.value,
                    record.key,
                    partition=self._partition if record.partition is None else record.partition,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms,
                    on_delivery=lambda error, message: on_delivery(number, error, message),
                )
                return
            except BufferError as error:
                if time.monotonic() >= deadline_s:
                    raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from error
                self._producer.poll(0.1)

    def _abort(self, cause: KafkaError, failures: Sequence[KafkaError]) -> EventsError | WriterLost:
        """The error of a transaction that failed, which is aborted if that is still possible."""
        is_fenced = cause.code() in _FENCED or "fenced" in cause.str().lower()
        if cause.fatal() or is_fenced or not cause.txn_requires_abort():
            # After a commit without a response, an abort would be as uncertain as the commit.
            return WriterLost(f"{self._name}: {cause.str()}", is_fenced=is_fenced)
        try:
            self._retry(self._producer.abort_transaction)
        except KafkaException as error:
            code = error.args[0].code()
            return WriterLost(f"{self._name}: {error.args[0].str()}", is_fenced=code in _FENCED)
        # Records that waited behind the rejected one fail with errors of their own.
        reason = next((each for each in failures if each.code() not in _FOLLOWING), cause)
        if reason.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return InvalidEvent(
                f"{self._name}: {reason.str()}",
                hint="`headrace topic alter NAME --config max.message.bytes=N`",
            )
        return StoreUnavailable(
            f"{self._name} can't write: {reason.str()}", hint="nothing was written; it can be tried again"
        )

    def _retry(self, call: Any, *arguments: Any) -> None:
        """Retry while the client reports that it may, until the timeout."""
        deadline_s = time.monotonic() + self._timeout_s
        while True:
            try:
                call(*arguments, max(deadline_s - time.monotonic(), 0.1))
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() >= deadline_s:
                    raise
