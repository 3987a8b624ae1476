"""Missing events, read from the topic of their publisher: the number of an event is its offset."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headrace.edges.direct.gaps import Gap
from headrace.edges.direct.numbering import streams_of
from headrace.edges.direct.packet import NumberedEvent
from headrace.edges.direct.publishing import numbered_event
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed

TIMEOUT_S = 3.0
"""Without a response, a broker is considered unavailable: the feed waits. One that responds takes milliseconds."""

PAUSE_S = 10.0
"""After a failure nothing is recovered for so long: the feed must not wait for a broker that is unavailable."""

STREAMS_S = 10.0
"""Between two looks for a stream that is unknown: the topic may have been created again."""

SLICE = 500
"""Events that are handed over together."""

GROUP = "headrace-edge-recovery"
"""A client needs the name of a group, although nothing is committed to it."""


class Slice(Struct, frozen=True, kw_only=True):
    """A piece of a gap: what the topic has of it."""

    events: list[NumberedEvent]
    next: int
    """The numbers before this one are accounted for."""
    deleted: int = 0
    """of them, those that retention deleted"""


class Unavailable(HeadraceError):
    """The topic of the publisher can't be read now."""


class Recovery:
    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions: dict[int, Partition] = {}
        self._looked_s = float("-inf")
        self._paused_until_s = float("-inf")
        self._consumer: Consumer | None = None

    def read(self, stream: int, gap: Gap) -> Iterator[Slice]:
        """The events of a gap, in order, as far as the topic has them. Unavailable if it can't be read."""
        now_s = time.monotonic()
        if now_s < self._paused_until_s:
            raise Unavailable(f"{self._topic} can't be read: it failed a moment ago")
        try:
            partition = self._partition(stream, now_s)
            if partition is not None:
                yield from self._read(partition, gap)
        except (RequestFailed, KafkaException, Unavailable) as error:
            self._paused_until_s = time.monotonic() + PAUSE_S
            text = error.message if isinstance(error, HeadraceError) else str(error.args[0])
            raise Unavailable(f"missing events of {self._topic} can't be read: {text}") from error

    def _partition(self, stream: int, now_s: float) -> Partition | None:
        if stream not in self._partitions and now_s >= self._looked_s + STREAMS_S:
            found = streams_of(self._cluster, self._topic)
            self._partitions = {number: partition for partition, number in found.items()}
            self._looked_s = now_s
        return self._partitions.get(stream)

    def _read(self, partition: Partition, gap: Gap) -> Iterator[Slice]:
        first = min(max(gap.first, self._cluster.earliest([partition])[partition]), gap.next)
        if first > gap.first:
            yield Slice(events=[], next=first, deleted=first - gap.first)
        end = min(gap.next, self._cluster.latest([partition])[partition])
        if first >= end:
            return
        if self._consumer is None:
            self._consumer = self._connect()
        self._consumer.assign([TopicPartition(partition.topic, partition.number, first)])
        try:
            yield from self._slices(self._consumer, end)
        finally:
            self._consumer.unassign()

    def _connect(self) -> Consumer:
        config = self._cluster.client_config(
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level="read_committed",
            enable_partition_eof=True,
            auto_offset_reset="earliest",
            fetch_wait_max_ms=10,
        )
        return Consumer(config)

    def _slices(self, consumer: Consumer, end: int) -> Iterator[Slice]:
        while True:
            # `consume` alone waits until its batch is full.
            first = consumer.poll(TIMEOUT_S)
            if first is None:
                raise Unavailable("no response")
            messages = [first, *consumer.consume(SLICE, 0)]
            events = [numbered_event(each) for each in messages if _is_record_before(each, end)]
            # The offset of the end of the partition is the next one: what is before it has no record.
            next = min(end, max((each.offset() or 0) + (each.error() is None) for each in messages))
            yield Slice(events=events, next=next)
            if next == end or any(each.error() is not None for each in messages):
                return

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _is_record_before(message: Message, end: int) -> bool:
    error = message.error()
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    return error is None and (message.offset() or 0) < end
