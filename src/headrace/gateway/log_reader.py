"""Reading the log from any position: for requests, and for streams that are behind the newest records.

A few consumers are shared. Each read assigns its partitions to one of them, so that nothing is kept between two reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

from anyio import CapacityLimiter, to_thread
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.gateway.errors import BrokerUnavailable, Overloaded
from headrace.gateway.records import Record
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster, Partition, requesting
from headrace.kafka.errors import request_failed

Offsets = dict[str, dict[int, int]]
"""By topic and partition: the next offset."""

READ_S_MAX = 15.0
"""For a broker that does not respond. One that responds sends records or the end of a partition."""

LOOK_UP_S_MAX = 5.0

CONSUME_RECORDS = 500
GROUP = "headrace-gateway"
"""No group is joined and nothing committed, but the client requires a name."""


class BeyondEnd(HeadraceError):
    """An offset that the partition has not reached: the topic or the cluster is another one."""


class Gap(Struct, frozen=True, kw_only=True):
    """Records that retention deleted before they were read."""

    topic: str
    partition: int
    first: int
    next: int


class Page(Struct, frozen=True, kw_only=True):
    records: Sequence[Record]
    next: Offsets
    """Where to continue."""
    gaps: Sequence[Gap]
    at_end: bool
    """Whether there was nothing more, in any partition."""


class LogReader:
    def __init__(self, cluster: Cluster, settings: GatewaySettings) -> None:
        self._cluster = cluster
        self._free: list[Consumer] = []
        self._looked_up: dict[Consumer, set[str]] = defaultdict(set)
        """The topics whose leaders each of them knows."""
        self._places = asyncio.Semaphore(settings.readers_max)
        self._threads = CapacityLimiter(settings.readers_max)
        self._wait_s = settings.reader_wait_ms_max / 1000
        self._is_closed = False

    async def read(self, start: Mapping[str, Mapping[int, int]], *, records_max: int, bytes_max: int) -> Page:
        """The next records of these partitions; each gets a share of the page, so that none has to wait."""
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise Overloaded(
                "too many clients read older records at a time", hint="continue from the last position later"
            ) from None
        try:
            return await to_thread.run_sync(self._read, start, records_max, bytes_max, limiter=self._threads)
        finally:
            self._places.release()

    def _read(self, start: Mapping[str, Mapping[int, int]], records_max: int, bytes_max: int) -> Page:
        consumer = self._free.pop() if self._free else self._consumer()
        try:
            for topic in start.keys() - self._looked_up[consumer]:
                look_up_leaders(consumer, topic)
                self._looked_up[consumer].add(topic)
            page = _Reading(self._cluster, consumer, start, records_max, bytes_max).run()
        except HeadraceError:
            self._give_back(consumer)
            raise
        except BaseException:
            self._close(consumer)  # its state is unknown
            raise
        self._give_back(consumer)
        return page

    def _give_back(self, consumer: Consumer) -> None:
        consumer.unassign()
        if self._is_closed:
            self._close(consumer)
        else:
            self._free.append(consumer)

    def _consumer(self) -> Consumer:
        return Consumer(reading_config(self._cluster, enable_partition_eof=True, fetch_wait_max_ms=10))

    def close(self) -> None:
        self._is_closed = True
        while self._free:
            self._close(self._free.pop())

    def _close(self, consumer: Consumer) -> None:
        self._looked_up.pop(consumer, None)
        consumer.close()


def reading_config(cluster: Cluster, **options: Any) -> dict[str, Any]:
    """Of a consumer without a group. It never chooses an offset by itself."""
    config = cluster.client_config(
        group_id=GROUP,
        enable_auto_commit=False,
        enable_auto_offset_store=False,
        auto_offset_reset="error",
        isolation_level="read_committed",
        check_crcs=True,
        allow_auto_create_topics=False,
        queued_max_messages_kbytes=16_384,
        reconnect_backoff_max_ms=1_000,
        **options,
    )
    return {**config, "error_cb": lambda _error: None}


def look_up_leaders(consumer: Consumer, topic: str) -> None:
    """Before the first assignment of a topic to a client, which otherwise looks for the leaders once a second."""
    with contextlib.suppress(KafkaException):
        consumer.list_topics(topic, timeout=LOOK_UP_S_MAX)


class _Reading:
    """One page."""

    def __init__(
        self,
        cluster: Cluster,
        consumer: Consumer,
        start: Mapping[str, Mapping[int, int]],
        records_max: int,
        bytes_max: int,
    ) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self._next: Offsets = {topic: dict(partitions) for topic, partitions in start.items()}
        self._open = {
            Partition(topic, number) for topic, partitions in start.items() for number in partitions
        }
        self._at_end: set[Partition] = set()
        count = max(1, len(self._open))
        self._records_share, self._bytes_share = max(1, records_max // count), max(1, bytes_max // count)
        self._records_max, self._bytes_max = records_max, bytes_max
        self._sizes: dict[Partition, tuple[int, int]] = {}
        self._records: list[Record] = []
        self._bytes = 0
        self._gaps: list[Gap] = []

    def run(self) -> Page:
        partitions = len(self._open)
        self._consumer.assign(
            [
                TopicPartition(each.topic, each.number, self._next[each.topic][each.number])
                for each in self._open
            ]
        )
        deadline_s = time.monotonic() + READ_S_MAX
        while self._open and not self._is_full():
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                if self._records:
                    break
                raise BrokerUnavailable("the broker does not respond", hint="is it running?")
            self._take_some(left_s)
        return Page(
            records=self._records,
            next=self._next,
            gaps=self._gaps,
            at_end=len(self._at_end) == partitions,
        )

    def _is_full(self) -> bool:
        return len(self._records) >= self._records_max or self._bytes >= self._bytes_max

    def _take_some(self, left_s: float) -> None:
        first = self._consumer.poll(left_s)
        if first is None:
            return
        self._take(first)
        for message in self._consumer.consume(CONSUME_RECORDS, timeout=0):
            if self._is_full():
                return
            self._take(message)

    def _take(self, message: Message) -> None:
        partition = Partition(cast("str", message.topic()), cast("int", message.partition()))
        error = message.error()
        if error is not None:
            self._on_error(error, partition, message)
        elif partition in self._open:
            record = Record.of(message)
            self._records.append(record)
            self._next[partition.topic][partition.number] = record.offset + 1
            self._count(partition, record.size_bytes)

    def _count(self, partition: Partition, size: int) -> None:
        records, total = self._sizes.get(partition, (0, 0))
        self._sizes[partition] = records, total = records + 1, total + size
        self._bytes += size
        if records >= self._records_share or total >= self._bytes_share:
            self._open.discard(partition)

    def _on_error(self, error: KafkaError, partition: Partition, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            if partition in self._open:
                self._open.discard(partition)
                self._at_end.add(partition)
                # The last offsets may have no record: compaction, markers of transactions.
                offsets = self._next[partition.topic]
                offsets[partition.number] = max(offsets[partition.number], cast("int", message.offset()))
        elif code == KafkaError._AUTO_OFFSET_RESET:
            self._jump_gap(partition)
        elif not (error.retriable() or code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)):
            raise request_failed(error, "reading")

    def _jump_gap(self, partition: Partition) -> None:
        """The offset does not exist. Its partition gets no more records on this page."""
        wanted = self._next[partition.topic][partition.number]
        with requesting(f"reading the offsets of {partition.topic}"):
            first = self._cluster.earliest([partition])[partition]
        if wanted > first:
            raise BeyondEnd(
                f"{partition} has not reached offset {wanted}",
                hint="was the topic deleted, or is it another cluster? Start from a time instead",
            )
        self._gaps.append(Gap(topic=partition.topic, partition=partition.number, first=wanted, next=first))
        self._next[partition.topic][partition.number] = first
        self._open.discard(partition)
