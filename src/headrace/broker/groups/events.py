"""Events of a classic group, the actions that follow, and the time-outs of members.

Requests and responses are those of the protocol. A request that waits is known here by a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from headrace.broker.groups.state import Group, MemberProtocol
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class TimerKind(Enum):
    SESSION = "session"
    REBALANCE = "rebalance"
    """A member of the newer protocol must revoke partitions."""
    JOIN = "join"
    """Classic members must rejoin."""
    SYNC = "sync"
    """Classic members must request their assignment."""


class TimerKey(Struct, frozen=True):
    group_id: str
    kind: TimerKind
    member_id: str


# Events.


class Join(Struct, frozen=True, kw_only=True):
    """JoinGroup, with what the request itself does not have."""

    member_id: str
    new_member_id: str = ""
    """The id of a new member, if `member_id` is empty; created outside of the rules, because it is random."""
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]
    needs_known_id: bool
    """The client supports MEMBER_ID_REQUIRED, so that retries of a first join leave no unused members."""
    can_skip_assignment: bool
    """The client understands that it leads but must not assign again."""


Request = Join | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
Response = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse


def failed_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=None)


def left(member: MemberIdentity, error: ErrorCode) -> MemberResponse:
    """The result of one member of a LeaveGroup."""
    return MemberResponse(
        member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=error
    )


class TimerExpired(Struct, frozen=True, kw_only=True):
    kind: TimerKind
    member_id: str = ""
    """Of a session; the join phase and the sync phase are those of the group."""


class MembersInherited(Struct, frozen=True, kw_only=True):
    """The group was one of the newer protocol until now, and its members have to rejoin."""


class AssignmentStored(Struct, frozen=True, kw_only=True):
    generation: int
    assignments: Mapping[str, bytes]
    error: ErrorCode = ErrorCode.NONE


class StaticMemberStored(Struct, frozen=True, kw_only=True):
    request: int
    member_id: str
    leader_id: str | None
    """The leader in the response to the returning member."""
    skip_assignment: bool
    error: ErrorCode = ErrorCode.NONE


Stored = AssignmentStored | StaticMemberStored
Event = Request | TimerExpired | MembersInherited | Stored


def rejection(request: Event, error: ErrorCode) -> Response:
    """The response to a request that fails; other events are never rejected."""
    match request:
        case Join():
            return failed_join(error, request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error_code=error)
        case HeartbeatRequest():
            return HeartbeatResponse(error_code=error)
        case LeaveGroupRequest():
            if error is not ErrorCode.UNKNOWN_MEMBER_ID:
                return LeaveGroupResponse(error_code=error)
            return LeaveGroupResponse(members=tuple(left(member, error) for member in request.members))
        case _:
            raise AssertionError(f"{request} is no request")


# Actions.


class Respond(Struct, frozen=True, kw_only=True):
    request: int
    response: Response


class ArmTimer(Struct, frozen=True, kw_only=True):
    """Start a time-out, or restart it if it runs."""

    kind: TimerKind
    after_ms: int
    member_id: str = ""
    is_kept: bool = False
    """A time-out that runs already is not changed."""


class CancelTimer(Struct, frozen=True, kw_only=True):
    kind: TimerKind
    member_id: str = ""


class StoreGroup(Struct, frozen=True, kw_only=True):
    """Append the group to the log; then handle the event `then`, with an error if that fails."""

    group: Group
    then: Stored | None = None
    waits_for_disk: bool = False
    """If a power cut loses a generation, the group rebalances, which costs less than an fsync in every rebalance.
    A static member's new id must be durable: without it the member would be fenced by its own old id."""


Action = Respond | ArmTimer | CancelTimer | StoreGroup
