"""Events of a classic group: the rules handle each of them, also if their member is unknown."""

from __future__ import annotations

from typing import get_args

import pytest

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    AssignmentStored,
    Event,
    Join,
    MembersInherited,
    Respond,
    StaticMemberStored,
    TimerExpired,
    TimerKind,
    failed_join,
)
from headrace.broker.groups.state import Group
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.protocol.messages.sync_group import SyncGroupResponse
from tests.broker.groups.simulation import LIMITS, offers, sync_request

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
STRANGER = MemberIdentity(member_id="m")

FROM_A_STRANGER: list[tuple[Event, object]] = [
    (
        Join(
            member_id="m",
            instance_id=None,
            client_id="c",
            client_host="/h",
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
            protocol_type="consumer",
            protocols=offers(),
            needs_known_id=True,
            can_skip_assignment=True,
        ),
        failed_join(UNKNOWN, "m"),
    ),
    (sync_request("m", 1, {}), SyncGroupResponse(error_code=UNKNOWN)),
    (
        HeartbeatRequest(group_id="g", member_id="m", generation_id=1),
        HeartbeatResponse(error_code=UNKNOWN),
    ),
    (
        LeaveGroupRequest(group_id="g", members=(STRANGER,)),
        LeaveGroupResponse(members=(MemberResponse(member_id="m", error_code=UNKNOWN),)),
    ),
    # The removal of the member has responded to its request.
    (StaticMemberStored(request=1, member_id="m", leader_id=None, skip_assignment=False), None),
    (TimerExpired(kind=TimerKind.SESSION, member_id="m"), None),
    (TimerExpired(kind=TimerKind.JOIN), None),
    (TimerExpired(kind=TimerKind.SYNC), None),
    (MembersInherited(), None),
    (AssignmentStored(generation=1, assignments={}), None),
]


def test_every_kind_of_event_is_listed() -> None:
    assert {type(event) for event, _ in FROM_A_STRANGER} == {*get_args(Event)}


@pytest.mark.parametrize(
    ("event", "response"), FROM_A_STRANGER, ids=[type(event).__name__ for event, _ in FROM_A_STRANGER]
)
def test_event_of_an_unknown_member_is_rejected_and_changes_nothing(event: Event, response: object) -> None:
    group = Group(group_id="g")
    after, actions = handle(group, event, limits=LIMITS, now_ms=1, request=1)
    assert after is group
    assert actions == ([] if response is None else [Respond(request=1, response=response)])  # type: ignore[arg-type]
