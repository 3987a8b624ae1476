"""LeaveGroup over the wire."""

from __future__ import annotations

import uuid

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.testing.wire import Wire
from tests.broker.consumer_group_requests import consumer_heartbeat, describe
from tests.broker.consumer_group_requests import member as join
from tests.broker.group_requests import heartbeat, stable_member
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(3))
def test_before_version_3_one_member_leaves(wire: Wire, version: int) -> None:
    member = stable_member(wire, new_name())
    request = LeaveGroupRequest(group_id=member.group, member_id=member.member_id)
    assert wire.request(request, version=version).error_code == 0
    assert heartbeat(wire, member) is ErrorCode.UNKNOWN_MEMBER_ID
    assert wire.request(request, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(3, 6))
def test_since_version_3_each_member_has_its_own_result(wire: Wire, version: int) -> None:
    member = stable_member(wire, new_name(), group_instance_id="static")
    request = LeaveGroupRequest(
        group_id=member.group,
        members=(
            MemberIdentity(member_id="missing"),
            MemberIdentity(member_id="", group_instance_id="static"),
        ),
    )
    response = wire.request(request, version=version)
    assert response.error_code == 0
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in response.members] == [
        ("missing", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", "static", ErrorCode.NONE),
    ]
    assert heartbeat(wire, member, group_instance_id="static") is ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_a_missing_group_is_rejected(wire: Wire) -> None:
    request = LeaveGroupRequest(group_id=new_name(), members=(MemberIdentity(member_id="m"),))
    response = wire.request(request)
    assert (response.error_code, response.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert wire.request(LeaveGroupRequest(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID


def test_members_of_the_newer_protocol_can_be_removed(any_wire: Wire, any_topic: str, any_group: str) -> None:
    group = any_group
    by_name, by_both, dynamic, stays = (
        join(any_wire, group, str(uuid.uuid4()), any_topic, instance_id=instance_id)
        for instance_id in ("by-name", "by-both", None, None)
    )
    assert _remove(any_wire, group, ("somebody", "by-both")) == [ErrorCode.FENCED_INSTANCE_ID]
    removed = _remove(
        any_wire, group, ("", "by-name"), (by_both.member_id, "by-both"), (dynamic.member_id, None)
    )
    assert removed == [ErrorCode.NONE] * 3
    assert _remove(any_wire, group, ("", "by-name")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [one.member_id for one in describe(any_wire, group).members] == [stays.member_id]
    rejected = consumer_heartbeat(any_wire, group, by_name.member_id, by_name.epoch, instance_id="by-name")
    assert rejected.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def _remove(wire: Wire, group: str, *members: tuple[str, str | None]) -> list[ErrorCode]:
    named = tuple(MemberIdentity(member_id=id_, group_instance_id=name) for id_, name in members)
    response = wire.request(LeaveGroupRequest(group_id=group, members=named))
    assert response.error_code == 0
    return [ErrorCode(one.error_code) for one in response.members]
