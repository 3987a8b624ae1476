"""Reads the committed records of partitions up to an end, and keeps its connections for the next time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from headrace.events.errors import EventsError, StoreUnavailable
from headrace.events.records import InRecord, header_map
from headrace.kafka.cluster import Partition

FETCH_WAIT_MS = 10
"""A reader stops at an end that it knows. A fetch in flight delays the next read by this at most."""

BATCH_RECORDS_MAX = 1000
"""Records that are taken from the client in one call."""

POLL_S = 0.2

_CONFIG: dict[str, Any] = {
    "group.id": "headrace-events-reader",  # the client requires one, and nothing is committed
    "isolation.level": "read_committed",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # A start that retention deleted is an error: events are missing.
    "auto.offset.reset": "error",
    "fetch.wait.max.ms": FETCH_WAIT_MS,
}

Range = tuple[int, int]


class PartitionReader:
    """Connects at the first read."""

    def __init__(self, client_config: Mapping[str, Any], *, timeout_s: float) -> None:
        self._client_config = client_config
        self._timeout_s = timeout_s
        self._consumer: Consumer | None = None

    def read(self, ranges: Mapping[Partition, Range]) -> Iterator[InRecord]:
        """The records from each first offset up to its end, which is exclusive; in order within a partition.

        The ends must be stable: an open transaction below one of them is waited for, up to the timeout.
        """
        missing = {each: end for each, (first, end) in ranges.items() if first < end}
        if not missing:
            return
        if self._consumer is None:
            self._consumer = Consumer({**self._client_config, **_CONFIG})
        self._consumer.assign([TopicPartition(each.topic, each.number, ranges[each][0]) for each in missing])
        try:
            yield from self._read(self._consumer, missing)
        finally:
            with contextlib.suppress(RuntimeError):  # closed by a thread that does not wait for this one
                self._consumer.unassign()

    def _read(self, consumer: Consumer, missing: dict[Partition, int]) -> Iterator[InRecord]:
        idle_since_s = time.monotonic()
        while missing:
            # `consume` alone waits until its batch is full.
            first = consumer.poll(POLL_S)
            for message in [] if first is None else [first, *consumer.consume(BATCH_RECORDS_MAX, 0)]:
                partition = Partition(str(message.topic()), message.partition() or 0)
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise _failure(partition, error)
                end = missing.get(partition)
                if end is None:
                    continue
                offset = message.offset() or 0
                if error is None and offset < end:
                    idle_since_s = time.monotonic()
                    yield record_of(message)
                # The last offsets may have no records: markers of transactions, aborted ones, compaction.
                if offset >= end - (error is None):
                    del missing[partition]
            if missing and time.monotonic() > idle_since_s + self._timeout_s:
                raise StoreUnavailable(
                    f"{', '.join(map(str, missing))} can't be read to the end:"
                    f" no record within {self._timeout_s:.0f} s",
                    hint="is the broker overloaded, or does another program have an open transaction there?",
                )

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def record_of(message: KafkaMessage) -> InRecord:
    return InRecord(
        topic=str(message.topic()),
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp_ms=message.timestamp()[1],
        key=message.key(),
        value=message.value(),
        headers=header_map(message.headers()),  # type: ignore[arg-type]
    )


def _failure(partition: Partition, error: KafkaError) -> EventsError:
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return EventsError(
            f"the first records of {partition} are deleted: {error.str()}",
            hint="an event store needs cleanup.policy=delete and retention.ms=-1",
        )
    return StoreUnavailable(f"{partition} can't be read: {error.str()}", hint="is the broker running?")
