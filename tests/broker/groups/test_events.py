"""Events of a classic group: the rules handle each of them, also if their member is unknown."""

from __future__ import annotations

from typing import get_args

import pytest

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    Answer,
    AssignmentStored,
    Event,
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    JoinPhaseExpired,
    Leave,
    LeaveAnswer,
    LeavingMember,
    MembersInherited,
    SessionExpired,
    StaticMemberStored,
    Sync,
    SyncAnswer,
    SyncPhaseExpired,
)
from headrace.broker.groups.state import Group
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.simulation import LIMITS, offers

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
STRANGER = LeavingMember(member_id="m", instance_id=None)

FROM_A_STRANGER: list[tuple[Event, object]] = [
    (
        Join(
            request=1,
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
        JoinAnswer(error=UNKNOWN, member_id="m"),
    ),
    (
        Sync(
            request=1,
            member_id="m",
            instance_id=None,
            generation=1,
            protocol_type=None,
            protocol_name=None,
            assignments={},
        ),
        SyncAnswer(error=UNKNOWN),
    ),
    (Heartbeat(request=1, member_id="m", instance_id=None, generation=1), HeartbeatAnswer(error=UNKNOWN)),
    (Leave(request=1, members=(STRANGER,)), LeaveAnswer(members=((STRANGER, UNKNOWN),))),
    # The removal of the member has answered its request.
    (StaticMemberStored(request=1, member_id="m", leader_id=None, skip_assignment=False), None),
    (SessionExpired(member_id="m"), None),
    (JoinPhaseExpired(), None),
    (SyncPhaseExpired(), None),
    (MembersInherited(), None),
    (AssignmentStored(generation=1, assignments={}), None),
]


def test_every_kind_of_event_is_listed() -> None:
    assert {type(event) for event, _ in FROM_A_STRANGER} == {*get_args(Event)}


@pytest.mark.parametrize(
    ("event", "answer"), FROM_A_STRANGER, ids=[type(event).__name__ for event, _ in FROM_A_STRANGER]
)
def test_event_of_an_unknown_member_is_answered_and_changes_nothing(event: Event, answer: object) -> None:
    group = Group(group_id="g")
    after, actions = handle(group, event, limits=LIMITS, now_ms=1)
    assert after is group
    assert actions == ([] if answer is None else [Answer(request=1, answer=answer)])  # type: ignore[arg-type]
