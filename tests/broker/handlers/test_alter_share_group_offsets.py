"""AlterShareGroupOffsets over the wire."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.group_requests import stable_member
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_offset_requests import Consumed, alter
from tests.broker.share_requests import ACCEPT, ShareMember, group_offset, heartbeat


@pytest.fixture
def consumed(wire: Wire) -> Consumed:
    return Consumed(wire)


def test_missing_group_is_created_with_the_offsets(any_wire: Wire, any_topic: str, any_group: str) -> None:
    group = any_group
    produce(any_wire, any_topic, batch(*(b"x" for _ in range(5))))
    assert alter(any_wire, group, any_topic, 3) is ErrorCode.NONE
    found = group_offset(any_wire, group)
    assert found is not None
    assert (found.start_offset, found.lag) == (3, 2)
    (listed,) = [one for one in any_wire.request(ListGroupsRequest()).groups if one.group_id == group]
    assert (listed.group_type, listed.group_state) == ("share", "Empty")


def test_offsets_of_a_group_of_another_type_are_rejected(
    any_wire: Wire, any_topic: str, any_group: str
) -> None:
    classic, missing = stable_member(any_wire, any_group).group, new_name("g")
    assert alter(any_wire, classic, any_topic, 0) is ErrorCode.GROUP_ID_NOT_FOUND
    assert alter(any_wire, "", any_topic, 0) is ErrorCode.INVALID_GROUP_ID
    assert alter(any_wire, missing, new_name(), 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (described,) = any_wire.request(ShareGroupDescribeRequest(group_ids=(missing,))).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_offsets_create_no_group_beyond_the_limit(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(groups_max=1))
    create_topic(wire, "t")
    assert alter(wire, "first", "t", 0) is ErrorCode.NONE
    assert alter(wire, "second", "t", 0) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert alter(wire, "first", "t", 0) is ErrorCode.NONE


@pytest.mark.parametrize(("offset", "expected"), [(0, 0), (7, 7), (99, 10), (-5, 0)])
def test_altered_group_starts_at_the_new_offsets(consumed: Consumed, offset: int, expected: int) -> None:
    consumed.member.close()
    assert consumed.alter(offset) is ErrorCode.NONE
    found = group_offset(consumed.wire, consumed.group)
    assert found is not None
    assert found.start_offset == expected
    again = ShareMember(consumed.wire, consumed.group, consumed.topic_id)
    assert again.offsets() == [*range(expected, 10)]
    assert all(count == 1 for _, _, count in again.held)


def test_altered_offsets_release_the_locks(consumed: Consumed) -> None:
    assert consumed.alter(0) is ErrorCode.NONE
    assert consumed.member.acknowledge((5, 9, ACCEPT)) is ErrorCode.INVALID_RECORD_STATE


def test_group_with_members_is_not_altered(consumed: Consumed) -> None:
    heartbeat(consumed.wire, consumed.group, "a", 0, consumed.topic)
    assert consumed.alter(0) is ErrorCode.NON_EMPTY_GROUP


def test_unknown_topics_and_partitions_are_rejected(consumed: Consumed) -> None:
    assert consumed.alter(0, partition=3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert consumed.alter(0, topic="nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
