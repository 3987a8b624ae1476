"""How a member gets from its assignment to its target: it revokes first, and gets what others have revoked.

    STABLE ──────── a newer target lacks some of its partitions ─> UNREVOKED_PARTITIONS
    UNREVOKED_PARTITIONS ── it reports that it has revoked them ─> one of the others
    STABLE ──────── others still own some of the new ones ───────> UNRELEASED_PARTITIONS
    UNRELEASED_PARTITIONS ── others have revoked them ───────────> STABLE

Its epoch advances when it has revoked everything, so a member of the newest epoch owns no partition of another target.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TypeAlias

from msgspec.structs import replace

from headrace.broker.groups.assignors import Assignment, TopicIdPartition
from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerMember, MemberState, Owned

Reported: TypeAlias = Mapping[uuid.UUID, frozenset[int]]
"""The partitions that a member reports to own."""


def reconciled(
    group: ConsumerGroup, member: ConsumerMember, target: Assignment, reported: Reported | None
) -> ConsumerMember:
    """The member after its next step, unchanged if it has to wait. `reported` is None if it reported nothing."""
    # A member may have unsubscribed from assigned topics before the next target is computed.
    is_overdue = group.epochs.group != group.epochs.target and not _is_within(member.assigned, target)
    if member.is_reconciled_to(group.epochs.target) and not is_overdue:
        return member
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _holds(reported, member.revoking):
            return member
        epoch = min(epoch + 1, group.epochs.target)
    kept: dict[uuid.UUID, dict[int, int]] = {}
    revoking: dict[uuid.UUID, dict[int, int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = target.get(topic_id, frozenset())
        for partition, since_epoch in partitions.items():
            side = kept if partition in wanted else revoking
            side.setdefault(topic_id, {})[partition] = since_epoch
    if revoking and _holds(reported, revoking):
        return replace(
            member,
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            revoking=revoking,
        )
    is_waiting = _add_free(group, member, target, kept)
    return replace(
        member,
        epoch=group.epochs.target,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
        assigned=kept,
        revoking={},
    )


def _is_within(owned: Owned, target: Assignment) -> bool:
    return all(
        partitions.keys() <= target.get(topic_id, frozenset()) for topic_id, partitions in owned.items()
    )


def _holds(reported: Reported | None, revoking: Owned) -> bool:
    if reported is None:
        return True
    return any(
        not reported.get(topic_id, frozenset()).isdisjoint(partitions)
        for topic_id, partitions in revoking.items()
    )


def _add_free(
    group: ConsumerGroup,
    member: ConsumerMember,
    target: Assignment,
    assigned: dict[uuid.UUID, dict[int, int]],
) -> bool:
    """Assign what no other member owns; whether others own some of it."""
    is_waiting = False
    for topic_id, partitions in target.items():
        have = assigned.get(topic_id, {})
        for partition in partitions - have.keys():
            if group.owner(TopicIdPartition(topic_id, partition)) in (None, member.member_id):
                assigned.setdefault(topic_id, {})[partition] = group.epochs.target
            else:
                is_waiting = True
    return is_waiting


def is_blocked(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether others still own all partitions that the member waits for."""
    for topic_id, partitions in group.target(member.member_id).items():
        for partition in partitions - member.assigned.get(topic_id, {}).keys():
            if group.owner(TopicIdPartition(topic_id, partition)) is None:
                return False
    return True
