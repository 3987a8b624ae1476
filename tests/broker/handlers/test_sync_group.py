"""SyncGroup over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequestAssignment
from headrace.testing.wire import Wire
from tests.broker.group_requests import GroupMember, join, stable_member, sync_request
from tests.broker.requests import new_name


@pytest.mark.parametrize("version", range(6))
def test_the_leader_gets_its_own_assignment(wire: Wire, version: int) -> None:
    member = join(wire, new_name())
    response = wire.request(sync_request(member), version=version)
    assert (response.error_code, response.assignment) == (0, b"all")
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (response.protocol_type, response.protocol_name) == expected


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "missing-group"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "missing"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 77}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_inconsistent_sync_is_rejected(wire: Wire, changes: dict[str, Any], error: ErrorCode) -> None:
    member = stable_member(wire, new_name())
    response = wire.request(sync_request(member, **changes))
    assert (response.error_code, response.assignment) == (error, b"")


def test_sync_of_a_group_without_members_is_rejected(wire: Wire) -> None:
    stranger = GroupMember(group=new_name(), member_id="m", generation=1)
    assert wire.request(sync_request(stranger)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_big_group_is_stored_whole(wire: Wire) -> None:
    # One record holds the group: 2 MiB of assignment do not fit into a batch of the usual limit.
    member = join(wire, new_name())
    share = SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(2 << 20))
    response = wire.request(sync_request(member, assignments=(share,)))
    assert (response.error_code, len(response.assignment)) == (0, 2 << 20)
