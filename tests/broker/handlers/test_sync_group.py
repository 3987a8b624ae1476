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
def test_the_leader_gets_what_it_gave_itself(wire: Wire, version: int) -> None:
    member = join(wire, new_name())
    answer = wire.ask(sync_request(member), version=version)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == expected


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"group_id": "nobody-is-here"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": 77}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_sync_that_does_not_fit_is_refused(wire: Wire, changes: dict[str, Any], error: ErrorCode) -> None:
    member = stable_member(wire, new_name())
    answer = wire.ask(sync_request(member, **changes))
    assert (answer.error_code, answer.assignment) == (error, b"")


def test_a_group_that_was_never_joined_has_no_member_to_sync(wire: Wire) -> None:
    stranger = GroupMember(group=new_name(), member_id="m", generation=1)
    assert wire.ask(sync_request(stranger)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_big_group_is_stored_whole(wire: Wire) -> None:
    # One record holds the group: 2 MiB of assignment do not fit into a batch of the usual limit.
    member = join(wire, new_name())
    share = SyncGroupRequestAssignment(member_id=member.member_id, assignment=bytes(2 << 20))
    answer = wire.ask(sync_request(member, assignments=(share,)))
    assert (answer.error_code, len(answer.assignment)) == (0, 2 << 20)
