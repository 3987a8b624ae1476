"""Events of a classic group, the actions that follow, and the answers to members.

Requests that wait for an answer are known here by a number; the coordinator keeps what stands behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from headrace.broker.groups.state import Group, MemberProtocol
from headrace.protocol.error_codes import ErrorCode

# Events: requests of members.


class Join(Struct, frozen=True, kw_only=True):
    request: int = 0
    """Numbered by the coordinator."""
    member_id: str
    new_member_id: str = ""
    """The id of a new member, if `member_id` is empty; made outside of the rules, because it is random."""
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


class Sync(Struct, frozen=True, kw_only=True):
    request: int = 0
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: Mapping[str, bytes]


class Heartbeat(Struct, frozen=True, kw_only=True):
    request: int = 0
    member_id: str
    instance_id: str | None
    generation: int


class LeavingMember(Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None


class Leave(Struct, frozen=True, kw_only=True):
    request: int = 0
    members: tuple[LeavingMember, ...]


# Events: a time-out, or the end of a write.


class SessionExpired(Struct, frozen=True, kw_only=True):
    member_id: str


class JoinPhaseExpired(Struct, frozen=True, kw_only=True):
    pass


class SyncPhaseExpired(Struct, frozen=True, kw_only=True):
    pass


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
    """The leader in the answer to the returning member."""
    skip_assignment: bool
    error: ErrorCode = ErrorCode.NONE


Stored = AssignmentStored | StaticMemberStored
Expired = SessionExpired | JoinPhaseExpired | SyncPhaseExpired
Event = Join | Sync | Heartbeat | Leave | Expired | MembersInherited | Stored


# Answers.


class MemberMetadata(Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinAnswer(Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = ""
    members: tuple[MemberMetadata, ...] = ()
    """The metadata of every member: for the leader only."""
    skip_assignment: bool = False


class SyncAnswer(Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class HeartbeatAnswer(Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE


class LeaveAnswer(Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE
    members: tuple[tuple[LeavingMember, ErrorCode], ...] = ()


# Actions.


class TimerKind(Enum):
    SESSION = "session"
    JOIN_PHASE = "join phase"
    SYNC_PHASE = "sync phase"


class Answer(Struct, frozen=True, kw_only=True):
    request: int
    answer: JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer


class ArmTimer(Struct, frozen=True, kw_only=True):
    """Start a time-out, or restart it if it runs."""

    kind: TimerKind
    after_ms: int
    member_id: str = ""


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


Action = Answer | ArmTimer | CancelTimer | StoreGroup
