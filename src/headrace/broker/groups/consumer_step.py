"""One event of a group of the newer protocol: the changes, the time-outs that start and end.

A step changes its group immediately. If it can't be finished, or can't be stored, `undo` reverts all of it.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.groups.assignors import Assignment
from headrace.broker.groups.consumer_state import (
    Catalog,
    Change,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    EpochsChange,
    MemberChange,
    PatternChange,
    Resolved,
    TargetChange,
)
from headrace.broker.groups.events import ArmTimer, CancelTimer, TimerKind

ASSIGNED_AT_ONCE_MAX = 1_000
"""Members and partitions of a group whose target is computed at every change; that takes about a millisecond."""
ASSIGNED_PER_MS_MAX = 20
"""A larger group waits in between, so that assigning takes a few percent of the time: with 10,000 members, half a
second."""


class ConsumerStep(Struct, kw_only=True):
    group: ConsumerGroup
    catalog: Catalog
    now_ms: int
    session_timeout_ms: int
    """Of members of the newer protocol: the broker sets it, not the member."""
    members_max: int
    assigned_at_once_max: int = ASSIGNED_AT_ONCE_MAX
    assigned_per_ms_max: int = ASSIGNED_PER_MS_MAX
    changes: list[Change] = field(default_factory=list)
    timers: list[ArmTimer | CancelTimer] = field(default_factory=list)
    waits_for_disk: bool = False
    becomes_classic: bool = False
    """The last member of the newer protocol left: the others become a classic group."""

    def undo(self) -> None:
        for change in reversed(self.changes):
            self.group.revert(change)
        self.changes.clear()
        self.timers.clear()

    # Changes

    def put(self, member: ConsumerMember) -> None:
        before = self.group.members.get(member.member_id)
        if before != member:
            self._change(MemberChange(member_id=member.member_id, before=before, after=member))

    def remove(self, member: ConsumerMember) -> None:
        self._change(MemberChange(member_id=member.member_id, before=member, after=None))
        self.set_target(member.member_id, None)
        for kind in TimerKind:
            self.cancel(kind, member)

    def set_target(self, member_id: str, target: Assignment | None) -> None:
        before = self.group.targets.get(member_id)
        if before is not target and before != target:
            self._change(TargetChange(member_id=member_id, before=before, after=target))

    def set_pattern(self, pattern: str, resolved: Resolved | None) -> None:
        self._change(PatternChange(pattern=pattern, before=self.group.patterns.get(pattern), after=resolved))

    def set_epochs(self, epochs: Epochs) -> None:
        if epochs != self.group.epochs:
            self._change(EpochsChange(before=self.group.epochs, after=epochs))

    def bump(self) -> None:
        """The target assignment is for other members or topics."""
        self.set_epochs(replace(self.group.epochs, group=self.group.epochs.group + 1))

    def _change(self, change: Change) -> None:
        self.group.apply(change)
        self.changes.append(change)

    # Time-outs

    def arm(self, kind: TimerKind, member: ConsumerMember, *, is_kept: bool = False) -> None:
        """Start the time-out of a session, or of a member's part in a rebalance."""
        after_ms = member.rebalance_timeout_ms
        if kind is TimerKind.SESSION:
            classic = member.classic
            after_ms = self.session_timeout_ms if classic is None else classic.session_timeout_ms
        self.timers.append(
            ArmTimer(kind=kind, member_id=member.member_id, after_ms=after_ms, is_kept=is_kept)
        )

    def cancel(self, kind: TimerKind, member: ConsumerMember) -> None:
        self.timers.append(CancelTimer(kind=kind, member_id=member.member_id))
