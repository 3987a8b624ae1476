"""OffsetCommit over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect
from tests.broker.group_requests import commit, committed, join, stable_member
from tests.broker.requests import create_topic, delete_topic, new_name

NONE = ErrorCode.NONE


@pytest.mark.parametrize("version", range(2, 10))
def test_consumer_with_manual_assignment_commits(wire: Wire, topic: str, version: int) -> None:
    group = new_name()
    assert commit(wire, group, topic, 7, version=version) is NONE
    assert committed(wire, group, topic) == 7


def test_version_10_names_topics_by_id(wire: Wire) -> None:
    group, topic = new_name(), new_name()
    topic_id = create_topic(wire, topic)
    assert commit(wire, group, topic_id, 7) is NONE
    assert committed(wire, group, topic) == 7
    assert commit(wire, group, uuid.uuid4(), 7) is ErrorCode.UNKNOWN_TOPIC_ID


def test_the_later_commit_counts_even_if_its_offset_is_lower(wire: Wire, topic: str) -> None:
    group = new_name()
    for offset in (7, 9, 2):
        assert commit(wire, group, topic, offset) is NONE
    assert committed(wire, group, topic) == 2


def test_missing_topics_and_partitions_are_rejected(wire: Wire, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert commit(wire, new_name(), new_name(), 1) is unknown
    assert commit(wire, new_name(), topic, 1, partition=1) is unknown


def test_metadata_is_bounded_by_itself(wire: Wire) -> None:
    group = new_name()

    def part(index: int, metadata: str | None) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=metadata
        )

    topic = new_name()
    create_topic(wire, topic, partitions=3)
    parts = (part(0, "x" * 4_097), part(1, "x" * 4_096), part(2, None))
    request = OffsetCommitRequest(
        group_id=group, topics=(OffsetCommitRequestTopic(name=topic, partitions=parts),)
    )
    (response,) = wire.request(request, version=9).topics
    assert [one.error_code for one in response.partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0, 0]
    assert [committed(wire, group, topic, partition=index) for index in range(3)] == [-1, 1, 1]


def test_group_with_members_accepts_commits_only_from_them(wire: Wire, topic: str) -> None:
    member = stable_member(wire, new_name(), topic)
    group = member.group
    assert commit(wire, group, topic, 1, member=member) is NONE
    assert commit(wire, group, topic, 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(wire, group, topic, 2, member=member, member_id="missing") is ErrorCode.UNKNOWN_MEMBER_ID
    stale = member.generation - 1
    late = commit(wire, group, topic, 2, member=member, generation_id_or_member_epoch=stale)
    assert late is ErrorCode.ILLEGAL_GENERATION
    assert committed(wire, group, topic) == 1


def test_between_join_and_sync_a_commit_has_to_wait(wire: Wire, topic: str) -> None:
    member = join(wire, new_name(), topic)
    assert commit(wire, member.group, topic, 1, member=member) is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)]
)
def test_generation_of_a_missing_group_is_rejected(
    wire: Wire, topic: str, version: int, error: ErrorCode
) -> None:
    found = commit(
        wire, new_name(), topic, 1, version=version, member_id="m", generation_id_or_member_epoch=3
    )
    assert found is error


def test_offsets_of_a_deleted_topic_are_deleted(wire: Wire) -> None:
    group, topic = new_name(), new_name()
    create_topic(wire, topic)
    assert commit(wire, group, topic, 5) is NONE
    delete_topic(wire, topic)
    create_topic(wire, topic)
    # The offsets are deleted in the background: the next commit is appended after that in the same log.
    other = new_name()
    create_topic(wire, other)
    assert commit(wire, group, other, 1) is NONE
    assert committed(wire, group, topic) == -1


def test_commit_before_leaving_is_stored(headrace_broker: Broker, connect: Connect, topic: str) -> None:
    wire = connect(headrace_broker)
    member = stable_member(wire, new_name(), topic)
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    wire.send(
        OffsetCommitRequest(
            group_id=member.group,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            topics=(OffsetCommitRequestTopic(name=topic, partitions=(part,)),),
        ),
        version=9,
    )
    wire.send(LeaveGroupRequest(group_id=member.group, members=(MemberIdentity(member_id=member.member_id),)))
    assert wire.receive().topics[0].partitions[0].error_code == 0
    assert wire.receive().members[0].error_code == 0
    assert committed(wire, member.group, topic) == 5
