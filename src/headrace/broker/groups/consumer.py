"""The rules of the newer group protocol (KIP-848): what a heartbeat, a departure and a time-out do to a group.

Nothing here waits, writes or reads a clock. Functions change the group of a `ConsumerStep` and return the result for
the member; they raise `RequestRejected`. Members with the classic protocol are in `consumer_classic`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.groups.assignors import ASSIGNORS, UNIFORM, Assignment, Candidate
from headrace.broker.groups.consumer_reconciliation import Reported, reconciled
from headrace.broker.groups.consumer_state import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    FoundTopic,
    MemberState,
    Owned,
    Resolved,
)
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.events import TimerKind
from headrace.broker.patterns import compiled, matching
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode


class ConsumerHeartbeat(Struct, frozen=True, kw_only=True):
    """None (or -1 for the time-out) if unchanged."""

    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    reported: Reported | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def is_full(self) -> bool:
        """Whether all fields are set: then the response has them all, too."""
        is_subscribing = self.topics is not None or self.pattern is not None
        reports = self.rebalance_timeout_ms != -1 and self.reported is not None
        return self.member_epoch == JOIN_EPOCH or (is_subscribing and reports)


class ConsumerResult(Struct, frozen=True, kw_only=True):
    member_id: str
    member_epoch: int
    assignment: Owned | None = None
    """None if unchanged."""


def check_heartbeat(heartbeat: ConsumerHeartbeat) -> None:
    """Checks of a request that do not depend on the group."""
    if heartbeat.instance_id == "":
        raise _invalid("InstanceId can't be empty.")
    if heartbeat.rack_id == "":
        raise _invalid("RackId can't be empty.")
    if heartbeat.member_epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if heartbeat.member_epoch != JOIN_EPOCH and not heartbeat.member_id:
        raise _invalid("MemberId can't be empty.")
    if heartbeat.member_epoch == STATIC_LEAVE_EPOCH and heartbeat.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    if heartbeat.member_epoch == JOIN_EPOCH:
        if heartbeat.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if heartbeat.reported is None or heartbeat.reported:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if heartbeat.topics is None and heartbeat.pattern is None:
            raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be set when (re-)joining.")
    if heartbeat.assignor is not None and heartbeat.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        raise RequestRejected(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"There is no assignor {heartbeat.assignor}, but {known}."
        )


def _invalid(message: str) -> RequestRejected:
    return RequestRejected(ErrorCode.INVALID_REQUEST, message)


# A member joins, or reports


def heartbeat(step: ConsumerStep, heartbeat: ConsumerHeartbeat) -> ConsumerResult:
    check_room(step, heartbeat.member_id, heartbeat.instance_id)
    before = _member_before(step, heartbeat)
    if before is not None:
        _check_epoch(before, heartbeat)
    member = _updated(before or ConsumerMember(member_id=heartbeat.member_id), heartbeat)
    if member.pattern and (before is None or before.pattern != member.pattern):
        _check_pattern(member.pattern)
    step.put(member)
    after = reconcile(step, before, member, heartbeat.reported)
    # Only a member that has changed, or that sends all fields, gets its assignment.
    has_changed = before is None or before.assigned != after.assigned
    return ConsumerResult(
        member_id=after.member_id,
        member_epoch=after.epoch,
        assignment=after.assigned if has_changed or heartbeat.is_full else None,
    )


def reconcile(
    step: ConsumerStep, before: ConsumerMember | None, member: ConsumerMember, reported: Reported | None
) -> ConsumerMember:
    """Update the group after a change of a member: group epoch, target assignment, and the member's next step."""
    refresh(step, is_changed=before is None or not before.subscribes_like(member))
    assign_if_due(step)
    after = reconciled(step.group, member, _still_wanted(step, member), reported)
    step.put(after)
    step.arm(TimerKind.SESSION, after)
    if after.classic is None and after != member:
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            step.arm(TimerKind.REBALANCE, after)
        else:
            step.cancel(TimerKind.REBALANCE, after)
    return after


def _still_wanted(step: ConsumerStep, member: ConsumerMember) -> Assignment:
    """The target may be older than the member's subscription."""
    target = step.group.target(member.member_id)
    if step.group.epochs.group == step.group.epochs.target:
        return target
    wanted = _topic_ids(step, step.group.wanted_topics(member))
    return {topic_id: partitions for topic_id, partitions in target.items() if topic_id in wanted}


def check_room(step: ConsumerStep, member_id: str, instance_id: str | None) -> None:
    group = step.group
    is_known = member_id in group.members or (
        instance_id is not None and group.static_member(instance_id) is not None
    )
    if not is_known and len(group.members) >= step.members_max:
        raise RequestRejected(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The group has {step.members_max} members, as many as group_members_max allows.",
        )


def unknown_member(member_id: str) -> RequestRejected:
    return RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID, f"There is no member {member_id} in the group.")


def _member_before(step: ConsumerStep, heartbeat: ConsumerHeartbeat) -> ConsumerMember | None:
    group, member_id, instance_id = step.group, heartbeat.member_id, heartbeat.instance_id
    if heartbeat.member_epoch != JOIN_EPOCH:
        return known_member(group, member_id, instance_id)
    existing = None if instance_id is None else group.static_member(instance_id)
    if instance_id is not None and (existing is None or existing.member_id != member_id):
        step.waits_for_disk = True  # a member whose new id is lost would be fenced for good
    if existing is None or existing.member_id == member_id:
        return group.members.get(member_id)
    if existing.epoch != STATIC_LEAVE_EPOCH and existing.classic is None:
        raise RequestRejected(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"The instance id {instance_id} belongs to {existing.member_id}, which has not left.",
        )
    return replace_static_member(step, existing, member_id)


def known_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The member that a request acts for. Raises RequestRejected."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(member_id)
        return member
    static = group.static_member(instance_id)
    if static is None:
        raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID, f"There is no instance id {instance_id} here.")
    if static.member_id != member_id:
        raise RequestRejected(
            ErrorCode.FENCED_INSTANCE_ID,
            f"The instance id {instance_id} belongs to the member {static.member_id} now.",
        )
    return static


def replace_static_member(step: ConsumerStep, existing: ConsumerMember, member_id: str) -> ConsumerMember:
    """A static member returns with another id: it keeps its partitions, and its epochs start again."""
    target = step.group.targets.get(existing.member_id)
    returned = replace(existing, member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    step.remove(existing)
    step.put(returned)
    step.set_target(member_id, target)
    return returned


def _check_epoch(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> None:
    epoch = heartbeat.member_epoch
    if epoch == member.epoch or epoch == JOIN_EPOCH:
        return
    # The response with its new epoch may be lost: accept the old epoch if it owns only assigned partitions.
    is_behind = epoch == member.previous_epoch and epoch < member.epoch
    if not is_behind or not _is_part(heartbeat.reported, member.assigned):
        raise RequestRejected(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member is at epoch {member.epoch} and not at {epoch}: "
            "it must revoke its partitions and join again.",
        )


def _is_part(reported: Reported | None, assigned: Owned) -> bool:
    if reported is None:
        return False
    return all(partitions <= assigned.get(topic_id, {}).keys() for topic_id, partitions in reported.items())


def _updated(member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> ConsumerMember:
    """The member with the fields of the heartbeat; fields that are not set stay unchanged."""
    topics = member.topics if heartbeat.topics is None else tuple(sorted(set(heartbeat.topics)))
    timeout_ms = heartbeat.rebalance_timeout_ms
    return replace(
        member,
        instance_id=heartbeat.instance_id or member.instance_id,
        rack_id=heartbeat.rack_id or member.rack_id,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
        topics=topics,
        pattern=member.pattern if heartbeat.pattern is None else heartbeat.pattern or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        assignor=heartbeat.assignor or member.assignor,
        classic=None,
    )


def _check_pattern(pattern: str) -> None:
    try:
        compiled(pattern)
    except HeadraceError as error:
        raise RequestRejected(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern!r} is no regular expression: {error.message}",
        ) from error


# Topics, epochs and targets


def refresh(step: ConsumerStep, *, is_changed: bool) -> None:
    """Check subscriptions and topics; a new group epoch if either has changed."""
    group = step.group
    if is_changed or group.seen_version != step.catalog.version:
        _resolve_patterns(step)
        found = _found(step)
        topics_hash = _hash(found)
        if topics_hash != group.epochs.topics_hash:
            step.set_epochs(replace(group.epochs, topics_hash=topics_hash))
            is_changed = True
        group.seen_version = step.catalog.version
    if is_changed:
        step.bump()


def _resolve_patterns(step: ConsumerStep) -> None:
    group, version = step.group, step.catalog.version
    is_seen = group.seen_version == version
    for pattern in group.patterns.keys() - group.used_patterns():
        step.set_pattern(pattern, None)
    for pattern in sorted(group.used_patterns()):
        known = group.patterns.get(pattern)
        if known is not None and is_seen:
            continue
        topics = matching(pattern, (topic.name for topic in step.catalog))
        if known is None or known.topics != topics:
            resolved = Resolved(topics=topics, version=version, resolved_at_ms=step.now_ms)
            step.set_pattern(pattern, resolved)


def _found(step: ConsumerStep) -> dict[str, FoundTopic]:
    """The subscribed topics that exist."""
    wanted = step.group.subscribed_topics()
    return {name: topic for name in sorted(wanted) if (topic := step.catalog.get(name)) is not None}


def _hash(found: Mapping[str, FoundTopic]) -> int:
    if not found:
        return 0
    text = "\n".join(f"{name} {topic.id} {topic.partition_count}" for name, topic in found.items())
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), signed=True)


def _topic_ids(step: ConsumerStep, names: frozenset[str]) -> frozenset[uuid.UUID]:
    return frozenset(topic.id for name in names if (topic := step.catalog.get(name)) is not None)


def assign_if_due(step: ConsumerStep) -> None:
    """Compute a new target assignment if the current one is of an older epoch."""
    group = step.group
    epochs = group.epochs
    if epochs.target >= epochs.group:
        return
    counts = {topic.id: topic.partition_count for topic in _found(step).values()}
    size = len(group.members) + sum(counts.values())
    # Do not wait because the clock was set back.
    since_ms = step.now_ms - epochs.assigned_at_ms
    if size > step.assigned_at_once_max and 0 <= since_ms < size // step.assigned_per_ms_max:
        return
    assign = ASSIGNORS[group.most_wanted_assignor(UNIFORM)]
    for member_id, target in assign(_candidates(step), counts).items():
        step.set_target(member_id, target)
    step.set_epochs(replace(group.epochs, target=epochs.group, assigned_at_ms=step.now_ms))


def _candidates(step: ConsumerStep) -> list[Candidate]:
    group = step.group
    # Most members have the same subscription, which is the same object: quick to compare.
    ids: dict[tuple[tuple[str, ...], str | None], frozenset[uuid.UUID]] = {}
    candidates = []
    for member in group.members.values():
        subscription = (member.topics, member.pattern)
        if subscription not in ids:
            ids[subscription] = _topic_ids(step, group.wanted_topics(member))
        candidates.append(
            Candidate(
                member_id=member.member_id,
                instance_id=member.instance_id,
                topic_ids=ids[subscription],
                earlier=group.target(member.member_id),
            )
        )
    return candidates


# A member leaves


def leave(step: ConsumerStep, heartbeat: ConsumerHeartbeat) -> ConsumerResult:
    member = known_member(step.group, heartbeat.member_id, heartbeat.instance_id)
    if heartbeat.member_epoch == STATIC_LEAVE_EPOCH:
        # It stays a member until its session times out. By leaving it has revoked its partitions.
        step.put(replace(member, epoch=STATIC_LEAVE_EPOCH, state=MemberState.STABLE, revoking={}))
        step.waits_for_disk = True
        step.cancel(TimerKind.REBALANCE, member)
        return ConsumerResult(member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH)
    fence(step, member)
    return ConsumerResult(member_id=member.member_id, member_epoch=LEAVE_EPOCH)


def fence(step: ConsumerStep, member: ConsumerMember) -> None:
    """Remove a member that left or timed out."""
    step.remove(member)
    step.bump()
    # Without members of the newer protocol the group may become a classic group.
    left = len(step.group.members)
    step.becomes_classic = member.classic is None and 0 < left == step.group.classic_count


def timer_due(step: ConsumerStep, kind: TimerKind, member_id: str) -> bool:
    """Whether the time-out has removed its member."""
    member = step.group.members.get(member_id)
    if member is None:
        return False
    if kind is TimerKind.REBALANCE and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return False
    if kind in (TimerKind.JOIN, TimerKind.SYNC) and member.classic is None:
        return False  # it has changed its protocol in the meantime
    fence(step, member)
    return True


def check_epoch_of(
    group: ConsumerGroup, member_id: str, epoch: int, *, covers: frozenset[tuple[uuid.UUID, int]] | None
) -> None:
    """Raise RequestRejected unless a member may commit or read offsets with the epoch that it names.

    An earlier epoch is as good for partitions (`covers`) that the member has had since then or longer.
    """
    member = known_member(group, member_id, None)
    if epoch == member.epoch:
        return
    if member.classic is not None:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    if covers is None or not 0 < epoch < member.epoch:
        raise RequestRejected(ErrorCode.STALE_MEMBER_EPOCH)
    for topic_id, partition in covers:
        both = (member.assigned, member.revoking)
        since_epoch = max(owned.get(topic_id, {}).get(partition, -1) for owned in both)
        if not 0 < since_epoch <= epoch:
            raise RequestRejected(ErrorCode.STALE_MEMBER_EPOCH)
