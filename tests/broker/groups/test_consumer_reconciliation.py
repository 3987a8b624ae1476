"""A member that moves to its target: it revokes first, and gets only partitions without an owner."""

from __future__ import annotations

import uuid

from headrace.broker.groups.consumer_reconciliation import is_blocked, reconciled
from headrace.broker.groups.consumer_state import (
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    EpochsChange,
    MemberChange,
    MemberState,
    TargetChange,
)

TOPIC = uuid.UUID(int=1)
OLD, NEW = 1, 2


def group_of(*members: ConsumerMember, **targets: frozenset[int]) -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.apply(EpochsChange(before=Epochs(), after=Epochs(group=NEW, target=NEW)))
    for member in members:
        group.apply(MemberChange(member_id=member.member_id, before=None, after=member))
    for member_id, partitions in targets.items():
        group.apply(TargetChange(member_id=member_id, before=None, after={TOPIC: partitions}))
    return group


def member(member_id: str, *partitions: int, epoch: int = OLD) -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id, epoch=epoch, assigned={TOPIC: dict.fromkeys(partitions, epoch)}
    )


def next_step(group: ConsumerGroup, member_id: str, *reported: int) -> ConsumerMember:
    before = group.members[member_id]
    after = reconciled(group, before, group.target(member_id), {TOPIC: frozenset(reported)})
    group.apply(MemberChange(member_id=member_id, before=before, after=after))
    return after


def test_partition_moves_when_its_owner_has_revoked_it() -> None:
    group = group_of(member("old", 0, 1), member("new"), old=frozenset({0}), new=frozenset({1}))

    waiting = next_step(group, "new")
    assert (waiting.state, waiting.epoch, waiting.assigned) == (MemberState.UNRELEASED_PARTITIONS, NEW, {})
    assert is_blocked(group, waiting)

    revoking = next_step(group, "old", 0, 1)
    assert (revoking.state, revoking.epoch) == (MemberState.UNREVOKED_PARTITIONS, OLD)
    assert (revoking.assigned, revoking.revoking) == ({TOPIC: {0: OLD}}, {TOPIC: {1: OLD}})
    assert next_step(group, "old", 0, 1) is revoking, "it still owns the partition"
    assert next_step(group, "new").assigned == {}

    revoked = next_step(group, "old", 0)
    assert (revoked.state, revoked.epoch, revoked.assigned) == (MemberState.STABLE, NEW, {TOPIC: {0: OLD}})
    assert not is_blocked(group, group.members["new"])
    settled = next_step(group, "new")
    assert (settled.state, settled.assigned) == (MemberState.STABLE, {TOPIC: {1: NEW}})


def test_member_that_reports_nothing_may_still_own_what_it_has_to_revoke() -> None:
    group = group_of(member("m", 0), m=frozenset())
    after = reconciled(group, group.members["m"], group.target("m"), None)
    assert (after.state, after.revoking) == (MemberState.UNREVOKED_PARTITIONS, {TOPIC: {0: OLD}})


def test_member_that_does_not_own_what_it_has_to_revoke_continues_immediately() -> None:
    group = group_of(member("m", 0), m=frozenset({1}))
    after = next_step(group, "m")
    assert (after.state, after.epoch, after.assigned) == (MemberState.STABLE, NEW, {TOPIC: {1: NEW}})


def test_member_at_its_target_is_unchanged() -> None:
    group = group_of(member("m", 0, epoch=NEW), m=frozenset({0}))
    assert next_step(group, "m", 0) is next_step(group, "m", 0)
    assert group.members["m"].assigned == {TOPIC: {0: NEW}}
