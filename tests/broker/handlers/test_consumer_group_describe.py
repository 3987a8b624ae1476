"""ConsumerGroupDescribe over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.testing.wire import Wire
from tests.broker.consumer_group_requests import consumer_heartbeat, describe, member, stabilize
from tests.broker.group_requests import stable_member
from tests.broker.requests import create_topic, new_name


def test_group_is_described_with_current_and_target_assignments(wire: Wire) -> None:
    group, topic = new_name("g"), new_name()
    topic_id = create_topic(wire, topic, partitions=2)
    one = member(wire, group, "m", topic, instance_id="i")
    member(wire, group, "n", topic)
    had = one.reported()
    one.beat(topic_partitions=had)

    described = describe(wire, group)
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    first, second = sorted(described.members, key=lambda each: each.member_id)
    assert (first.member_id, first.instance_id, first.member_epoch, first.client_id) == ("m", "i", 1, "wire")
    assert first.subscribed_topic_names == (topic,)
    assert first.client_host == "/127.0.0.1"
    assert [(has.topic_id, has.topic_name) for has in first.assignment.topic_partitions] == [
        (topic_id, topic)
    ]
    assert first.assignment == first.target_assignment
    assert second.assignment.topic_partitions == ()
    assert [to.partitions for to in second.target_assignment.topic_partitions] == [(1,)]
    assert {first.member_type, second.member_type} == {1}

    stabilize(one)
    consumer_heartbeat(wire, group, "m", -1, instance_id="i")
    assert describe(wire, group, version=0).group_state == "Assigning"
    consumer_heartbeat(wire, group, "n", -1)
    assert describe(wire, group).group_state == "Empty"


def test_groups_of_the_other_protocol_are_not_found_by_either(wire: Wire) -> None:
    classic, newer = new_name("g"), new_name("g")
    stable_member(wire, classic, "t")
    member(wire, newer, "m", "t")

    described = describe(wire, classic)
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in (described.error_message or "")
    [described] = wire.request(DescribeGroupsRequest(groups=(newer,)), version=6).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a classic group" in described.error_message
    assert describe(wire, "missing").error_code == ErrorCode.GROUP_ID_NOT_FOUND
