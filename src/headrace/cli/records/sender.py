"""The sender of `headrace produce`: records one by one, or large blocks of them as one batch."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.cli.output import note
from headrace.cli.records.produce_input import Block, KeyAndValue
from headrace.errors import HeadraceError
from headrace.kafka.errors import RequestFailed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from headrace.cli.records.bulk_sender import BulkSender
    from headrace.kafka.cluster import Cluster

# After this time a record that could not be delivered fails and is reported; the client's default of five minutes is
# too long for a person at a prompt.
DELIVERY_TIMEOUT_MS = 30_000
# Failures beyond this number are only counted: the first ones show the reason.
FAILURES_SHOWN_MAX = 5
# Sent between two looks at the reports of the client: some milliseconds.
RECORDS_AT_ONCE = 1_000
# A block of this size is worth the start of the bulk sender, which imports numpy and pyarrow.
BULK_BYTES_MIN = 32 * 1024
# A fraction of the time in which a full buffer is sent.
FULL_S = 0.01


class Sender:
    """Sends records and counts those that were delivered and those that failed."""

    def __init__(
        self,
        cluster: Cluster,
        producer: Producer,
        topic: str,
        *,
        headers: list[tuple[str, str | bytes | None]],
        partition: int,
        bulk: Callable[[], BulkSender] | None = None,
    ) -> None:
        """`bulk` opens the sender of large blocks, if the records can be sent that way."""
        self.topic = topic
        self._open_bulk = bulk
        self._bulk: BulkSender | None = None
        self.failed_count = 0
        self.sent_count = 0
        self._cluster = cluster
        self._producer = producer
        self._produce = functools.partial(producer.produce, headers=headers) if headers else producer.produce
        self._partition = partition
        self._rejection: str | None = None

    @property
    def delivered_count(self) -> int:
        """Once `finish` has returned."""
        return self.sent_count - self.failed_count

    def send_block(self, block: Block) -> None:
        """Send the records of a block; if it is large, as one batch."""
        if self._bulk is None and self._open_bulk is not None and block.input_bytes >= BULK_BYTES_MIN:
            self._flush()  # the order stays that of the input
            self._begin_bulk(self._open_bulk)
        if self._bulk is not None and self._bulk.send(block.records):
            return
        self._end_bulk()
        self._send_each(block.records)

    def settle(self) -> None:
        """Call it before a wait for more input: the client sends again in the background, batches do not."""
        if self._bulk is not None and not self._bulk.settle():
            self._end_bulk()

    def _begin_bulk(self, open_bulk: Callable[[], BulkSender]) -> None:
        try:
            self._bulk = open_bulk()
        except RequestFailed:  # the client can do it, or reports why not
            self._open_bulk = None

    def _send_each(self, records: list[KeyAndValue]) -> None:
        for begin in range(0, len(records), RECORDS_AT_ONCE):
            self.send(records[begin : begin + RECORDS_AT_ONCE])

    def _end_bulk(self) -> None:
        """The broker has rejected a batch: its records are sent one by one, and so is the rest of the input."""
        bulk, self._bulk = self._bulk, None
        if bulk is None:
            return
        self._open_bulk = None
        rejected = bulk.close()
        self.sent_count += bulk.stored_count + bulk.lost_count
        self.failed_count += bulk.lost_count
        wanted = self.sent_count + sum(map(len, rejected))
        try:
            for records in rejected:
                self._send_each(records)
        finally:
            self.failed_count += wanted - self.sent_count
            self.sent_count = wanted

    def send(self, records: Sequence[KeyAndValue]) -> None:
        """Send records; raises if the broker rejects all records."""
        from confluent_kafka import KafkaException

        # Local names, because this loop is most of the time of the command.
        produce, topic, partition, on_failure = self._produce, self.topic, self._partition, self._on_failure
        queued = 0
        try:
            for key, value in records:
                while True:
                    try:
                        produce(topic, value, key, partition, on_failure)
                    except BufferError:
                        # The client's buffer is full: the broker is slower than the input.
                        self._look(FULL_S)
                    else:
                        queued += 1
                        break
        except KafkaException as error:
            self._rejection = error.args[0].str()
        finally:
            self.sent_count += queued
        self._look(0)

    def _look(self, timeout_s: float) -> None:
        self._producer.poll(timeout_s)
        if self._rejection is not None:
            raise HeadraceError(
                f"{self.topic} accepts no records: {self._rejection}",
                hint="the rest of the input was not read",
            )

    def wait_until(self, moment_s: float) -> None:
        while (left_s := moment_s - time.monotonic()) > 0:
            self._producer.poll(left_s)

    def finish(self) -> None:
        """Wait until each record is delivered or has failed."""
        try:
            self._end_bulk()
        except HeadraceError as error:
            note(f"not delivered: {error.message}")
        self._flush()

    def _flush(self) -> None:
        deadline_s = time.monotonic() + DELIVERY_TIMEOUT_MS / 1000 + 5
        while (left := self._producer.flush(0.2)) and time.monotonic() < deadline_s:
            if self._rejection is not None:
                self._producer.purge()
        self.failed_count += left

    def _on_failure(self, error: KafkaError | None, _message: Message) -> None:
        assert error is not None
        self.failed_count += 1
        if self._rejection is not None:
            return
        reason = self._reason(error)
        if not _is_about_the_record(error):
            self._rejection = reason
        if self.failed_count <= FAILURES_SHOWN_MAX:
            note(f"not delivered: {reason}")

    def _reason(self, error: KafkaError) -> str:
        from confluent_kafka import KafkaError

        is_vague = error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError.KAFKA_STORAGE_ERROR)
        return (is_vague and _why_read_only(self._cluster, self.topic)) or error.str()


def _is_about_the_record(error: KafkaError) -> bool:
    """Whether the error concerns only this record."""
    from confluent_kafka import KafkaError

    return error.code() in (
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError._INVALID_DIFFERENT_RECORD,  # of the same batch
        KafkaError.INVALID_TIMESTAMP,
    )


def _why_read_only(cluster: Cluster, topic: str) -> str:
    """Why the broker accepts no records; empty if it does not report it. Clients retry such an error like any transient
    one, and in the end only report a timeout."""
    from headrace.kafka.on_disk import read_only_reasons

    try:
        reasons = read_only_reasons(cluster.brokers()[0], topic, cluster.timeout_s)
    except HeadraceError:
        return ""
    return next(
        (
            f"partition {partition} of {topic} is read-only: {reason}; repair its disk, then restart the broker"
            for partition, reason in sorted(reasons.items())
        ),
        "",
    )
