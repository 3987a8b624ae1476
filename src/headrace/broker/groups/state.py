"""A group as a value, its states, and the table of transitions between them.

Nothing here waits, writes or reads a clock: `classic` turns (group, event, now) into (group, actions) with
these values, and `coordinator` performs the actions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode

UNKNOWN_MEMBER = ""
CONSUMER_PROTOCOL_TYPE = "consumer"


class GroupState(Enum):
    """The value is the name that clients get."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Trigger(Enum):
    """What changes the state of a group; the value is its text in the picture in the docs and in the log."""

    MEMBER_JOINED = "a member joins"
    MEMBER_CHANGED = "a member rejoins with a new subscription"
    MEMBER_LEFT = "a member leaves or times out"
    ALL_JOINED = "all joined, or the rebalance timed out"
    NONE_JOINED = "the last member left"
    ASSIGNED = "the leader's assignment is stored"
    ASSIGNMENT_FAILED = "the assignment can't be stored"
    DELETED = "deleted or expired"


TRANSITIONS: Mapping[tuple[GroupState, Trigger], GroupState] = MappingProxyType(
    {
        (GroupState.EMPTY, Trigger.MEMBER_JOINED): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, Trigger.DELETED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, Trigger.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, Trigger.NONE_JOINED): GroupState.EMPTY,
        (GroupState.COMPLETING_REBALANCE, Trigger.ASSIGNED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, Trigger.MEMBER_JOINED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, Trigger.MEMBER_CHANGED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, Trigger.MEMBER_LEFT): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, Trigger.ASSIGNMENT_FAILED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, Trigger.MEMBER_JOINED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, Trigger.MEMBER_CHANGED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, Trigger.MEMBER_LEFT): GroupState.PREPARING_REBALANCE,
    }
)


class GroupLimits(Struct, frozen=True, kw_only=True):
    """The settings that the rules need."""

    members_max: int
    initial_rebalance_delay_ms: int
    new_member_join_timeout_ms: int


class MemberProtocol(Struct, frozen=True, kw_only=True):
    """An assignor that a member offers, with its metadata for the leader."""

    name: str
    metadata: bytes


class Member(Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None
    """Set by the user for a static member, which keeps its partitions while it is absent."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    join_request: int | None = None
    """The JoinGroup request of this member that waits for its response."""
    sync_request: int | None = None
    is_new: bool = False
    """Its first join has no response yet, so it has no id to send heartbeats with."""
    is_sync_pending: bool = False
    """It has joined the generation, and has not requested its assignment yet."""

    @property
    def is_waiting(self) -> bool:
        return self.join_request is not None or self.sync_request is not None

    def metadata_for(self, protocol_name: str | None) -> bytes:
        return next((offer.metadata for offer in self.protocols if offer.name == protocol_name), b"")


class InitialDelay(Struct, frozen=True, kw_only=True):
    """The first rebalance of an empty group waits a little, and longer while members keep arriving."""

    delay_ms: int
    remaining_ms: int
    was_joined: bool = False


class Group(Struct, frozen=True, kw_only=True):
    """A group of the classic protocol. `put` and `without` are the only ways to change its members."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    state_since_ms: int | None = None
    """System time, because it is stored; None if an older broker did not store it."""
    generation: int = 0
    protocol_type: str | None = None
    """None for a group that only commits offsets and never had a member."""
    protocol_name: str | None = None
    leader_id: str | None = None
    members: Mapping[str, Member] = field(default_factory=dict)
    joining_count: int = 0
    """Members whose join waits: kept beside them so that a join into a big group does not count them all."""
    protocol_counts: Mapping[str, int] = field(default_factory=dict)
    """How many members offer each protocol, kept for the same reason."""
    pending_member_ids: frozenset[str] = frozenset()
    """Ids that were assigned and not used to join yet."""
    initial_delay: InitialDelay | None = None
    is_assigning: bool = False
    """The leader's assignment is being stored."""

    def put(self, *members: Member) -> Group:
        """The group with these members added; they replace those with the same ids."""
        return self._rebuilt(dict(self.members), joined=members, left=())

    def without(self, member_ids: Iterable[str]) -> Group:
        """The group without these members and pending ids. If the leader is removed, another member becomes it."""
        removed = set(member_ids)
        left = [self.members[member_id] for member_id in removed if member_id in self.members]
        group = self._rebuilt(dict(self.members), joined=(), left=left)
        leader_id = self.leader_id
        if leader_id in removed:
            leader_id = next(iter(group.members), None)
        return replace(group, leader_id=leader_id, pending_member_ids=self.pending_member_ids - removed)

    def _rebuilt(
        self, members: dict[str, Member], *, joined: Iterable[Member], left: Iterable[Member]
    ) -> Group:
        joining_count = self.joining_count
        counts = dict(self.protocol_counts)
        arriving = [*joined]
        leaving = [*left, *(members[member.member_id] for member in arriving if member.member_id in members)]
        for member in leaving:
            joining_count -= member.join_request is not None
            for name in {offer.name for offer in member.protocols}:
                counts[name] -= 1
                if counts[name] == 0:
                    del counts[name]
        for member in left:
            del members[member.member_id]
        for member in arriving:
            members[member.member_id] = member
            joining_count += member.join_request is not None
            for name in {offer.name for offer in member.protocols}:
                counts[name] = counts.get(name, 0) + 1
        return replace(self, members=members, joining_count=joining_count, protocol_counts=counts)

    @property
    def all_joined(self) -> bool:
        return self.joining_count == len(self.members) and not self.pending_member_ids

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def static_member(self, instance_id: str) -> Member | None:
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def require_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member that a request acts for. Raises RequestRejected."""
        member = self.members.get(member_id)
        if member is not None and instance_id in (None, member.instance_id):
            return member
        is_fenced = instance_id is not None and self.static_member(instance_id) is not None
        raise RequestRejected(ErrorCode.FENCED_INSTANCE_ID if is_fenced else ErrorCode.UNKNOWN_MEMBER_ID)

    def supports(self, protocol_type: str, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether a member that offers these could be in the group: all members must have one in common."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self.protocol_counts.get(offer.name, 0) == len(self.members) for offer in protocols)

    def select_protocol(self) -> str:
        """Each member votes for the first of its protocols that all of them have; most votes win."""
        assert self.members, "an empty group has no protocol"
        common = {name for name, count in self.protocol_counts.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(offer.name for offer in member.protocols if offer.name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)
