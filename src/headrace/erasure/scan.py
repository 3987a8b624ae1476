"""Reading whole topics: which records of a person are there, and whether any is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import OffsetSpec
from msgspec import Struct, field

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Matcher
from headrace.kafka.cluster import Cluster, Partition

BATCH_RECORDS_MAX = 1000
"""Records that are taken from the client in one call."""

KEYS_MAX = 100_000
"""Keys of one person in one topic: they are kept in memory. More are a condition that fits everybody."""

POLL_S = 0.2

_CONFIG: dict[str, Any] = {
    "group.id": "headrace-erasure",  # the client requires one, and nothing is committed
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    # Retention may delete the first records while they are read.
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": 10,
}


class KeyAt(NamedTuple):
    partition: int
    key: bytes


class Found(Struct, kw_only=True):
    """What a scan found."""

    values: int = 0
    """records of the person that have a value"""
    live: set[KeyAt] = field(default_factory=set)
    """keys whose last record is one of them: they need a tombstone"""
    dead: set[KeyAt] = field(default_factory=set)
    """keys whose last record is a tombstone, with values of the person before it"""
    newest: dict[int, int] = field(default_factory=dict)
    """partition -> offset of the last value of the person"""
    newest_ms: int = 0
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """partition -> the offsets that were read: the first one, and the end"""
    unreadable: int = 0
    """values that are not JSON, and were not searched for a field"""
    has_object_keys: bool = False


class TopicScanner:
    """Reads topics of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def committed(self, topic: str, matcher: Matcher) -> Found:
        """The records that readers of committed data see; they decide which keys need a tombstone."""
        return self._scan(topic, matcher, IsolationLevel.READ_COMMITTED)

    def stored(self, topic: str, matcher: Matcher) -> Found:
        """All records that the broker stores, those of aborted transactions too: the proof reads these."""
        return self._scan(topic, matcher, IsolationLevel.READ_UNCOMMITTED)

    def _scan(self, topic: str, matcher: Matcher, isolation: IsolationLevel) -> Found:
        partitions = self._cluster.partitions(topic)
        starts = self._cluster.earliest(partitions)
        ends = self._cluster.offsets(partitions, OffsetSpec.latest(), isolation=isolation)
        found = Found(ranges={each.number: (starts[each], ends[each]) for each in partitions})
        seen: dict[KeyAt, bool] = {}  # whether the last record of the key is the person's
        for message in self._read(starts, ends, isolation):
            _examine(message, matcher, found, seen)
            if len(seen) > KEYS_MAX:
                raise BadErasure(
                    f"more than {KEYS_MAX:,} keys of {topic} belong to the person",
                    hint="name a field and a value that only one person has",
                )
        for place, is_live in seen.items():
            (found.live if is_live else found.dead).add(place)
        return found

    def is_gone(self, topic: str, offsets: Mapping[int, int]) -> bool:
        """Whether none of these records is stored any more; one offset for each partition."""
        starts = {Partition(topic, number): offset for number, offset in offsets.items()}
        ends = {partition: offset + 1 for partition, offset in starts.items()}
        return not any(True for _ in self._read(starts, ends, IsolationLevel.READ_UNCOMMITTED))

    def _read(
        self, starts: Mapping[Partition, int], ends: Mapping[Partition, int], isolation: IsolationLevel
    ) -> Iterator[KafkaMessage]:
        missing = {each: end for each, end in ends.items() if starts[each] < end}
        if not missing:
            return
        with self._consumer(isolation) as consumer:
            consumer.assign([TopicPartition(each.topic, each.number, starts[each]) for each in missing])
            idle_since_s = time.monotonic()
            while missing:
                # `consume` alone waits until its batch is full.
                first = consumer.poll(POLL_S)
                for message in [] if first is None else [first, *consumer.consume(BATCH_RECORDS_MAX, 0)]:
                    idle_since_s = time.monotonic()
                    yield from _within(message, missing)
                if missing and time.monotonic() > idle_since_s + self._cluster.timeout_s:
                    raise ErasureInterrupted(
                        f"{', '.join(map(str, missing))} can't be read to the end:"
                        f" no record within {self._cluster.timeout_s:.0f} s",
                        hint="is the broker running? `headrace erase continue` continues",
                    )

    @contextmanager
    def _consumer(self, isolation: IsolationLevel) -> Iterator[Consumer]:
        level = "read_committed" if isolation is IsolationLevel.READ_COMMITTED else "read_uncommitted"
        consumer = Consumer({**self._cluster.client_config(), **_CONFIG, "isolation.level": level})
        try:
            yield consumer
        finally:
            consumer.close()


def _within(message: KafkaMessage, missing: dict[Partition, int]) -> Iterator[KafkaMessage]:
    """The message, if it is one before the end of its partition; a partition that ends is removed from `missing`."""
    partition = Partition(str(message.topic()), message.partition() or 0)
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            return  # the client reconnects; the caller bounds how long
        raise ErasureInterrupted(
            f"{partition} can't be read: {error.str()}", hint="`headrace erase continue` continues"
        ) from KafkaException(error)
    end = missing.get(partition)
    if end is None:
        return
    offset = message.offset() or 0
    if error is None and offset < end:
        yield message
    # The last offsets may have no records: markers of transactions, aborted ones, compaction.
    if offset >= end - (error is None):
        missing.pop(partition, None)


def _examine(message: KafkaMessage, matcher: Matcher, found: Found, seen: dict[KeyAt, bool]) -> None:
    key, value = message.key(), message.value()
    place = KeyAt(message.partition() or 0, key or b"")
    is_object = key is not None and key[:1] == b"{"
    found.has_object_keys = found.has_object_keys or is_object
    is_own = key is not None and matcher.is_key(key)
    if value is not None and not is_own and matcher.reads_values:
        names_person = matcher.is_value(value)
        found.unreadable += names_person is None
        is_own = bool(names_person)
    if is_own and value is not None:
        found.values += 1
        found.newest[place.partition] = message.offset() or 0
        found.newest_ms = max(found.newest_ms, message.timestamp()[1])
        if key is not None:
            seen[place] = True
    elif key is not None and place in seen:
        if value is None:
            seen[place] = False
        else:
            # A later value that does not name the person: compaction removes the earlier one, and this one stays.
            del seen[place]
