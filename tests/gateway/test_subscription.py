"""A reader gets every record after its start once, wherever it starts and however far it is behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.clock import SystemClock
from headrace.gateway.feed import Feed
from headrace.gateway.feeds import Feeds
from headrace.gateway.log_reader import BeyondEnd, LogReader
from headrace.gateway.records import Record
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.starts import Starts
from headrace.gateway.subscription import Cursor, subscribed
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import NewTopic, Write

pytestmark = pytest.mark.timeout(120)

PARTITIONS = 3


class Log:
    """Records of three partitions in the order in which they were written, and a feed that gets them by and by."""

    def __init__(self, partitions: list[int], followed_from: int, kept: int) -> None:
        self.records: list[Record] = []
        offsets = dict.fromkeys(range(PARTITIONS), 0)
        for index, partition in enumerate(partitions):
            if index == followed_from:
                self.feed = Feed("t", dict(offsets), records_max=kept, bytes_max=10**9)
            record = Record(
                topic="t",
                partition=partition,
                offset=offsets[partition],
                timestamp_ms=0,
                key=None,
                value=b"",
                headers=[],
            )
            offsets[partition] += 1
            self.records.append(record)
        self._fed = followed_from

    def feed_some(self, count: int) -> None:
        self.feed.append(self.records[self._fed : self._fed + count])
        self._fed = min(self._fed + count, len(self.records))

    def read(self, cursor: Cursor, count: int) -> list[Record]:
        """As the log reader does, without any order between the partitions."""
        found = [each for each in self.records if each.offset >= cursor.offsets.get(each.partition, 0)]
        found = sorted(found, key=lambda each: each.partition)[:count]
        after = dict(cursor.offsets)
        after.update({each.partition: each.offset + 1 for each in found})
        cursor.moved_to(after)
        return found


@given(data=st.data())
def test_reader_gets_every_record_after_its_start_once(data: st.DataObject) -> None:
    partitions = data.draw(st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=40))
    followed_from = data.draw(st.integers(0, len(partitions) - 1))
    log = Log(partitions, followed_from, kept=data.draw(st.integers(1, 8)))
    log.feed_some(data.draw(st.integers(0, 20)))
    start = {each: data.draw(st.integers(0, partitions.count(each))) for each in range(PARTITIONS)}
    cursor = Cursor(log.feed, dict(start))
    found: list[Record] = []

    def take(count: int) -> None:
        if cursor.is_behind:
            found.extend(log.read(cursor, count))
        else:
            found.extend(record for record, _ in cursor.take(count, 10**9))

    for taken, fed in data.draw(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=20)):
        take(taken)
        log.feed_some(fed)
    log.feed_some(len(partitions))
    for _ in range(2 * len(partitions) + 10):
        take(1)
    for partition in range(PARTITIONS):
        offsets = [each.offset for each in found if each.partition == partition]
        assert offsets == [*range(start[partition], partitions.count(partition))], partition


def read(
    bootstrap: str, topics: list[str], start: dict[str, dict[int, int]] | None, count: int, **limits: Any
) -> tuple[list[bytes | None], list[Any]]:
    """The values of so many records, and the gaps between them."""
    settings = GatewaySettings(**limits)

    async def run() -> tuple[list[bytes | None], list[Any]]:
        known = Topics(Cluster(bootstrap, timeout_s=15), metadata_ms=10_000)
        feeds, log = Feeds(known, settings), LogReader(known.cluster, settings)
        await feeds.start()
        values: list[bytes | None] = []
        gaps = []
        starts = Starts(known, SystemClock(), resume_overlap_ms=0)

        async def restart(topic: str) -> dict[int, int]:
            return (await starts.at([topic], "earliest"))[topic]

        try:
            async with subscribed(
                feeds, log, topics, start, page_bytes_max=settings.page_bytes_max, restart=restart
            ) as found:
                while len(values) < count:
                    values += [record.value for record, _ in await found.next(wait_s=20)]
                    gaps += found.gaps
                    found.gaps.clear()
        finally:
            await feeds.close()
            log.close()
        return values, gaps

    return asyncio.run(run())


def test_older_records_of_several_topics_come_from_the_log(
    bootstrap: str, new_topic: NewTopic, write: Write
) -> None:
    topics = [new_topic(2), new_topic(1)]
    for index, topic in enumerate(topics):
        write(topic, *[f"{index} {each}".encode() for each in range(50)], partitions=2 - index)
    start = {topics[0]: {0: 10, 1: 0}, topics[1]: {0: 5}}
    values, gaps = read(bootstrap, topics, start, 85, page_bytes_max=2_000)
    assert (len(values), len(set(values)), gaps) == (85, 85, [])


def test_records_that_were_deleted_are_reported_and_reading_continues(
    bootstrap: str, new_topic: NewTopic, write: Write, cluster: Cluster
) -> None:
    topic = new_topic(1)
    write(topic, *[str(each).encode() for each in range(10)], partition=0)
    cluster.delete_records({cluster.partitions(topic)[0]: 7})
    values, (gap,) = read(bootstrap, [topic], {topic: {0: 2}}, 3)
    assert values == [b"7", b"8", b"9"]
    assert (gap.topic, gap.partition, gap.first, gap.next) == (topic, 0, 2, 7)


def test_offsets_that_the_topic_has_not_reached_are_those_of_another_one(
    bootstrap: str, new_topic: NewTopic, write: Write
) -> None:
    topic = new_topic(1)
    write(topic, b"0", b"1", partition=0)
    assert read(bootstrap, [topic], {topic: {0: 100}}, 2)[0] == [b"0", b"1"]


def test_offsets_beyond_the_end_are_an_error_if_nothing_else_is_known(
    bootstrap: str, topic: str, write: Write
) -> None:
    async def run() -> None:
        log = LogReader(Cluster(bootstrap, timeout_s=15), GatewaySettings())
        try:
            await log.read({topic: {0: 100}}, records_max=1, bytes_max=1)
        finally:
            log.close()

    with pytest.raises(BeyondEnd, match="has not reached offset 100"):
        asyncio.run(run())
