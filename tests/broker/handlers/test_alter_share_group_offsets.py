"""AlterShareGroupOffsets, DeleteShareGroupOffsets and DescribeShareGroupOffsets over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.group_requests import stable_member
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_requests import ACCEPT, ShareMember, group_offset, heartbeat, set_group_configs


def alter(wire: Wire, group: str, topic: str, offset: int, *, partition: int = 0) -> ErrorCode:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    wanted = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(part,))
    answer = wire.ask(AlterShareGroupOffsetsRequest(group_id=group, topics=(wanted,)))
    if answer.error_code:
        return ErrorCode(answer.error_code)
    return ErrorCode(answer.responses[0].partitions[0].error_code)


class Consumed:
    """A topic of ten records, of which a group has accepted 0 to 4 and holds the rest."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.topic, self.group = new_name(), new_name("g")
        self.topic_id: uuid.UUID = create_topic(wire, self.topic)
        set_group_configs(wire, self.group, share_auto_offset_reset="earliest")
        produce(wire, self.topic, batch(*(b"x" for _ in range(10))))
        self.member = ShareMember(wire, self.group, self.topic_id)
        self.member.offsets()
        assert self.member.acknowledge((0, 4, ACCEPT)) is ErrorCode.NONE

    def alter(self, offset: int, *, topic: str | None = None, partition: int = 0) -> ErrorCode:
        return alter(self.wire, self.group, topic or self.topic, offset, partition=partition)

    def delete(self, *, topic: str | None = None) -> ErrorCode:
        wanted = DeleteShareGroupOffsetsRequestTopic(topic_name=topic or self.topic)
        answer = self.wire.ask(DeleteShareGroupOffsetsRequest(group_id=self.group, topics=(wanted,)))
        return ErrorCode(answer.error_code or answer.responses[0].error_code)


@pytest.fixture
def consumed(wire: Wire) -> Consumed:
    return Consumed(wire)


@pytest.mark.parametrize("version", [0, 1])
def test_offset_and_what_is_left_are_told(wire: Wire, consumed: Consumed, version: int) -> None:
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name=consumed.topic, partitions=(0, 1))
    group = DescribeShareGroupOffsetsRequestGroup(group_id=consumed.group, topics=(asked,))
    answer = wire.ask(DescribeShareGroupOffsetsRequest(groups=(group,)), version=version)
    (topic,) = answer.groups[0].topics
    known, unknown = topic.partitions
    assert (known.start_offset, known.lag if version else 5) == (5, 5)
    assert (unknown.start_offset, unknown.error_code) == (-1, 0)


def test_group_that_is_not_there_begins_with_the_offsets_that_it_is_given(
    any_wire: Wire, any_topic: str, any_group: str
) -> None:
    group = any_group
    produce(any_wire, any_topic, batch(*(b"x" for _ in range(5))))
    assert alter(any_wire, group, any_topic, 3) is ErrorCode.NONE
    found = group_offset(any_wire, group)
    assert found is not None
    assert (found.start_offset, found.lag) == (3, 2)
    (listed,) = [one for one in any_wire.ask(ListGroupsRequest()).groups if one.group_id == group]
    assert (listed.group_type, listed.group_state) == ("share", "Empty")


def test_who_is_not_there_has_no_offset(any_wire: Wire, any_topic: str, any_group: str) -> None:
    asked = DescribeShareGroupOffsetsRequestTopic(topic_name=any_topic, partitions=(0, 9))
    nowhere = DescribeShareGroupOffsetsRequestTopic(topic_name=new_name(), partitions=(0,))
    for topics, found in ((None, ()), ((asked, nowhere), (-1, -1, -1))):
        group = DescribeShareGroupOffsetsRequestGroup(group_id=any_group, topics=topics)
        (answer,) = any_wire.ask(DescribeShareGroupOffsetsRequest(groups=(group,))).groups
        assert answer.error_code == 0
        parts = [part for topic in answer.topics for part in topic.partitions]
        assert tuple(part.start_offset for part in parts) == found
        assert all(part.error_code == 0 for part in parts)


def test_only_a_group_that_could_be_a_share_group_is_given_offsets(
    any_wire: Wire, any_topic: str, any_group: str
) -> None:
    classic, nobody = stable_member(any_wire, any_group).group, new_name("g")
    assert alter(any_wire, classic, any_topic, 0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert alter(any_wire, "", any_topic, 0) is ErrorCode.INVALID_GROUP_ID
    assert alter(any_wire, nobody, new_name(), 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (described,) = any_wire.ask(ShareGroupDescribeRequest(group_ids=(nobody,))).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_make_no_more_groups_than_there_may_be(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(groups_max=1))
    create_topic(wire, "t")
    assert alter(wire, "first", "t", 0) is ErrorCode.NONE
    assert alter(wire, "second", "t", 0) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert alter(wire, "first", "t", 0) is ErrorCode.NONE


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (7, 7), (99, 10), (-5, 0)])
def test_altered_group_begins_there(consumed: Consumed, offset: int, expected: int) -> None:
    consumed.member.close()
    assert consumed.alter(offset) is ErrorCode.NONE
    found = group_offset(consumed.wire, consumed.group)
    assert found is not None
    assert found.start_offset == expected
    again = ShareMember(consumed.wire, consumed.group, consumed.topic_id)
    assert again.offsets() == [*range(expected, 10)]
    assert all(count == 1 for _, _, count in again.held)


def test_records_held_before_are_nobodys_after(consumed: Consumed) -> None:
    assert consumed.alter(0) is ErrorCode.NONE
    assert consumed.member.acknowledge((5, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_group_with_members_is_left_alone(consumed: Consumed) -> None:
    heartbeat(consumed.wire, consumed.group, "a", 0, consumed.topic)
    assert consumed.alter(0) is ErrorCode.NON_EMPTY_GROUP
    assert consumed.delete() is ErrorCode.NON_EMPTY_GROUP


def test_unknown_topics_and_partitions_are_refused(consumed: Consumed) -> None:
    assert consumed.alter(0, partition=3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumed.alter(0, topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumed.delete(topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleted_offsets_are_forgotten(consumed: Consumed) -> None:
    assert consumed.delete() is ErrorCode.NONE
    assert group_offset(consumed.wire, consumed.group) is None
    assert ShareMember(consumed.wire, consumed.group, consumed.topic_id).offsets() == [*range(10)]
