"""ShareGroupDescribe, and share groups among the others in ListGroups, DescribeGroups and DeleteGroups."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_groups import DeleteGroupsRequest
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_requests import ShareMember, heartbeat, set_group_configs


def test_group_is_described_with_its_members_and_their_partitions(wire: Wire) -> None:
    group, name = new_name("g"), new_name()
    topic_id = create_topic(wire, name, partitions=2)
    epoch = heartbeat(wire, group, "a", 0, name).member_epoch
    (found,) = wire.request(ShareGroupDescribeRequest(group_ids=(group,))).groups
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Stable", "simple")
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("a", epoch, "wire")
    assert member.subscribed_topic_names == (name,)
    (part,) = member.assignment.topic_partitions
    assert (part.topic_id, part.topic_name, part.partitions) == (topic_id, name, (0, 1))


def test_unknown_group_is_an_error(wire: Wire) -> None:
    (found,) = wire.request(ShareGroupDescribeRequest(group_ids=("missing",))).groups
    assert found.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_share_groups_are_listed_as_such(wire: Wire, topic: str) -> None:
    live, left = new_name("g"), new_name("g")
    for group in (live, left):
        heartbeat(wire, group, "a", 0, topic)
    heartbeat(wire, left, "a", -1)

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, tuple[str, str]]:
        response = wire.request(ListGroupsRequest(states_filter=states, types_filter=types))
        return {
            one.group_id: (one.group_type, one.group_state)
            for one in response.groups
            if one.group_id in (live, left)
        }

    assert listed() == {live: ("share", "Stable"), left: ("share", "Empty")}
    assert set(listed(states=("Empty",), types=("Share",))) == {left}
    assert listed(types=("classic",)) == {}


def test_empty_group_is_deleted_and_restarts_without_state(wire: Wire) -> None:
    group, name = new_name("g"), new_name()
    topic_id = create_topic(wire, name)
    set_group_configs(wire, group, share_auto_offset_reset="earliest")
    produce(wire, name, batch(b"0", b"1"))
    heartbeat(wire, group, "a", 0, name)
    member = ShareMember(wire, group, topic_id, member="a")
    assert member.offsets() == [0, 1]
    member.acknowledge((0, 1, 1))
    assert _delete(wire, group) is ErrorCode.NON_EMPTY_GROUP
    heartbeat(wire, group, "a", -1)
    assert _delete(wire, group) is ErrorCode.NONE
    assert _delete(wire, group) is ErrorCode.GROUP_ID_NOT_FOUND
    assert ShareMember(wire, group, topic_id).offsets() == [0, 1]


def _delete(wire: Wire, group: str) -> ErrorCode:
    (result,) = wire.request(DeleteGroupsRequest(groups_names=(group,))).results
    return ErrorCode(result.error_code)
