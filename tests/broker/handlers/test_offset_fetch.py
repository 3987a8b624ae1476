"""OffsetFetch over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit
from tests.broker.requests import create_topic, new_name


@pytest.mark.parametrize("version", range(1, 8))
def test_before_version_8_one_group_is_requested(wire: Wire, topic: str, version: int) -> None:
    group = new_name()
    commit(wire, group, topic, 7, metadata="note", leader_epoch=3)
    wanted = (OffsetFetchRequestTopic(name=topic, partition_indexes=(0, 1)),)
    response = wire.request(OffsetFetchRequest(group_id=group, topics=wanted), version=version)
    assert response.error_code == 0
    (found,) = response.topics
    epoch = 3 if version >= 5 else -1
    assert [
        (one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata, one.error_code)
        for one in found.partitions
    ] == [(0, 7, epoch, "note", 0), (1, -1, -1, "", 0)]


@pytest.mark.parametrize("version", range(2, 8))
def test_null_requests_all_committed_offsets(wire: Wire, topic: str, version: int) -> None:
    group = new_name()
    commit(wire, group, topic, 7)
    response = wire.request(OffsetFetchRequest(group_id=group, topics=None), version=version)
    assert [(one.name, one.partitions[0].committed_offset) for one in response.topics] == [(topic, 7)]


@pytest.mark.parametrize("version", [8, 9])
def test_since_version_8_many_groups_are_requested(wire: Wire, topic: str, version: int) -> None:
    groups = [new_name(), new_name()]
    for offset, group in enumerate(groups):
        commit(wire, group, topic, offset)
    wanted = (OffsetFetchRequestTopics(name=topic, partition_indexes=(0,)),)
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id=groups[0], topics=wanted),
            OffsetFetchRequestGroup(group_id=groups[1], topics=None),
            OffsetFetchRequestGroup(group_id=new_name(), topics=None),
        ),
        require_stable=True,
    )
    response = wire.request(request, version=version)
    assert [one.error_code for one in response.groups] == [0, 0, 0]
    found = [[(t.name, t.partitions[0].committed_offset) for t in one.topics] for one in response.groups]
    assert found == [[(topic, 0)], [(topic, 1)], []]


def test_version_10_names_topics_by_id(wire: Wire) -> None:
    group, topic = new_name(), new_name()
    topic_id = create_topic(wire, topic)
    commit(wire, group, topic, 7)
    stranger = uuid.uuid4()
    some = tuple(
        OffsetFetchRequestTopics(topic_id=one, partition_indexes=(0,)) for one in (topic_id, stranger)
    )
    request = OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id=group, topics=some),
            OffsetFetchRequestGroup(group_id=group, topics=None),
        )
    )
    first, second = wire.request(request, version=10).groups
    assert [
        (t.topic_id, t.partitions[0].committed_offset, t.partitions[0].error_code) for t in first.topics
    ] == [(topic_id, 7, 0), (stranger, -1, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert [(t.topic_id, t.partitions[0].committed_offset) for t in second.topics] == [(topic_id, 7)]
