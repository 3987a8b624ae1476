from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import msgspec
import pytest

from headrace.events import EventsError, Rejection
from headrace.events.followed_log import LogSetup
from headrace.events.partition import EventContent, EventDraft, Partition
from headrace.events.partitioner import partition_of
from headrace.events.records import InRecord, OutRecord, Snapshot, Topics, header_map
from headrace.events.topics import prepare_event_topics
from headrace.kafka.cluster import Cluster
from tests.events.test_index import event, rejection

TIMEOUT_S = 30.0
OpenPartition = Callable[[], Partition]


@pytest.fixture
def open_partition(cluster: Cluster, topic: str) -> Iterator[OpenPartition]:
    topics = Topics.of(topic)
    prepare_event_topics(cluster, topics, 1)
    opened: list[Partition] = []

    def open_partition() -> Partition:
        setup = LogSetup(
            cluster=cluster,
            topics=(topics.events, topics.rejected, topics.snapshots),
            message_bytes_max=1_000_000,
            timeout_s=TIMEOUT_S,
        )
        opened.append(Partition(setup, topics, number=0, partitions=1))
        return opened[-1]

    yield open_partition
    for partition in opened:
        partition.close()


def read_back(record: OutRecord, partition: int = 0) -> InRecord:
    return InRecord(
        topic=record.topic,
        partition=partition,
        offset=9,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=header_map(record.headers),
    )


def content(*, number: int = 0, partitions: int = 1) -> EventContent:
    return EventContent(Topics.of("t"), number=number, partitions=partitions)


SNAPSHOT = Snapshot(aggregate_id="ada", version=1, state_version=1, data=b"{}")


def test_next_owner_has_what_was_drafted_and_committed(open_partition: OpenPartition) -> None:
    first = open_partition()

    def work(draft: EventDraft) -> None:
        draft.add_event(event(1, offset=-1, causation_id="c0"))
        draft.add_event(event(2, offset=-1))
        draft.add_rejection(rejection("c1", timestamp_ms=5))
        draft.add_snapshot(SNAPSHOT, 1)

    first.transact(work)
    second = open_partition()
    second.own()
    for partition in (first, second):
        assert [each.offset for each in partition.index.events("ada")] == [0, 1]
        assert partition.index.rejections("ada") == [rejection("c1", timestamp_ms=5)]
        assert partition.index.snapshot("ada") == SNAPSHOT
        assert partition.index.outcome("ada", "c0") is not None


def test_own_records_are_not_read_again(open_partition: OpenPartition, topic: str) -> None:
    partition = open_partition()
    for version in range(1, 4):
        partition.transact(lambda draft, version=version: draft.add_event(event(version, offset=-1)))  # type: ignore[misc]
    assert partition.index.position(topic) == 5  # three events and the markers between them
    assert partition.following.read_all() == 0
    assert partition.index.position(topic) == 6


@pytest.mark.parametrize("known", [True, False])
def test_draft_is_committed_if_the_log_has_its_first_event(known: bool) -> None:
    log = content()
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_event(event(1))
    log.apply(read_back(draft.records[0]))
    other = EventDraft(Topics.of("t"), content().database)
    other.add_event(event(1, id="another"))
    assert log.has(draft if known else other) is known


def test_draft_of_a_rejection_is_committed_if_the_log_has_it() -> None:
    log = content()
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_rejection(rejection("c1"))
    assert not log.has(draft)
    log.apply(read_back(draft.records[0]))
    assert log.has(draft)
    assert not log.has(EventDraft(Topics.of("t"), log.database))


def test_key_of_another_partition_is_an_error() -> None:
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_event(event(1))
    right = partition_of(b"ada", 2)
    content(number=right, partitions=2).apply(read_back(draft.records[0], right))
    with pytest.raises(EventsError, match="ada belongs to another partition"):
        content(number=1 - right, partitions=2).apply(read_back(draft.records[0], 1 - right))


def test_version_that_the_log_has_twice_is_an_error() -> None:
    log = content()
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_event(event(1))
    log.apply(read_back(draft.records[0]))
    log.apply(read_back(draft.records[0]))  # the same record
    other = EventDraft(Topics.of("t"), content().database)
    other.add_event(event(1, id="another"))
    with pytest.raises(EventsError, match=r"version 1 of ada .* after version 1"):
        log.apply(read_back(other.records[0]))


def test_snapshot_that_cannot_be_read_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    log = content()
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_snapshot(SNAPSHOT, 1)
    good = read_back(draft.records[0])
    log.apply(good)
    with caplog.at_level(logging.WARNING):
        log.apply(msgspec.structs.replace(good, headers={}))
    assert "a snapshot is ignored" in caplog.text
    log.database.add_event(event(1))
    assert log.database.snapshot("ada") == SNAPSHOT
    log.apply(msgspec.structs.replace(good, value=None))  # a tombstone
    assert log.database.snapshot("ada") is None


def test_rejection_without_a_valid_key_is_kept() -> None:
    log = content()
    draft = EventDraft(Topics.of("t"), content().database)
    draft.add_rejection(rejection("c1"))
    log.apply(msgspec.structs.replace(read_back(draft.records[0]), key=b""))
    found: list[Rejection] = log.database.rejections("")
    assert [each.command_id for each in found] == ["c1"]
