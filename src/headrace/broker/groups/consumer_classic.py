"""Members of the classic protocol in a group of the newer one: so a group is upgraded without stopping.

Each rejoins on its own: no member waits for the others, and none leads. What its protocol calls the generation is its
epoch here, and what it gets from SyncGroup is what the broker assigned to it.
"""

from __future__ import annotations

import uuid

from msgspec.structs import replace

from headrace.broker.groups.consumer import (
    check_room,
    known_static_member,
    replace_static_member,
    settle,
    unknown_member,
)
from headrace.broker.groups.consumer_embedded import (
    EmbeddedAssignment,
    EmbeddedPartitions,
    EmbeddedSubscription,
    read_subscription,
    version_of,
    write_assignment,
)
from headrace.broker.groups.consumer_reconciliation import Reported, is_held_up
from headrace.broker.groups.consumer_state import (
    Catalog,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from headrace.broker.groups.consumer_step import Arm, Cancel, ConsumerStep, ConsumerTimer
from headrace.broker.groups.events import (
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    Leave,
    LeaveAnswer,
    LeavingMember,
    Sync,
    SyncAnswer,
)
from headrace.broker.groups.state import CONSUMER_PROTOCOL_TYPE, UNKNOWN_MEMBER
from headrace.broker.refusals import RequestRefused
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.primitives import MalformedMessage


def join(step: ConsumerStep, join: Join) -> JoinAnswer:
    group = step.group
    is_new = join.member_id == UNKNOWN_MEMBER
    member_id = join.new_member_id if is_new else join.member_id
    check_room(step, member_id, join.instance_id)
    if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(join.protocols):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if is_new and join.instance_id is None and join.needs_known_id:
        return JoinAnswer(error=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
    try:
        subscription = read_subscription(join.protocols)
    except MalformedMessage as error:
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error
    before = _member_before(step, join, member_id)
    member = _updated(before or ConsumerMember(member_id=member_id), join, subscription)
    step.put(member)
    settled = settle(step, before, member, _reported(subscription, step.catalog))
    step.timers.append(Cancel(ConsumerTimer.JOIN, member_id))
    step.timers.append(Arm(ConsumerTimer.SYNC, member_id, join.rebalance_timeout_ms))
    step.becomes_classic = before is not None and before.classic is None and _all_classic(group)
    return JoinAnswer(
        member_id=member_id,
        generation=settled.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=join.protocols[0].name,
    )


def _all_classic(group: ConsumerGroup) -> bool:
    return 0 < len(group.members) == group.classic_count


def _member_before(step: ConsumerStep, join: Join, member_id: str) -> ConsumerMember | None:
    if join.instance_id is None:
        return step.group.members.get(member_id)
    if join.member_id != UNKNOWN_MEMBER:
        return known_static_member(step.group, join.instance_id, member_id)
    step.waits_for_disk = True
    existing = step.group.static_member(join.instance_id)
    if existing is None:
        return None
    # The old member may be of either protocol; a client that still uses its id is fenced.
    return replace_static_member(step, existing, member_id)


def _updated(member: ConsumerMember, join: Join, subscription: EmbeddedSubscription) -> ConsumerMember:
    return replace(
        member,
        instance_id=join.instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        pattern=None,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        assignor=None,
        classic=ClassicSide(session_timeout_ms=join.session_timeout_ms, protocols=join.protocols),
    )


def _reported(subscription: EmbeddedSubscription, catalog: Catalog) -> Reported:
    """The partitions that it owns. A member that revokes everything in a rebalance sends none, and owns none."""
    reported: dict[uuid.UUID, frozenset[int]] = {}
    for owned in subscription.owned_partitions:
        topic = catalog.find(owned.topic)
        if topic is not None:
            reported[topic.id] = frozenset(owned.partitions)
    return reported


def sync(step: ConsumerStep, sync: Sync) -> SyncAnswer:
    member = _classic_member(step, sync.member_id, sync.instance_id, sync.generation)
    assert member.classic is not None
    chosen = member.classic.protocols[0].name
    if sync.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or sync.protocol_name not in (None, chosen):
        raise RequestRefused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that still has to revoke partitions has rejoined already; it continues with what it keeps.
    is_behind = member.epoch < step.group.epochs.group
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _call_back(step, member)
        return SyncAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
    step.timers.append(Cancel(ConsumerTimer.SYNC, member.member_id))
    step.arm_session(member)
    return SyncAnswer(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=chosen,
        assignment=assignment_of(member, step.catalog),
    )


def assignment_of(member: ConsumerMember, catalog: Catalog) -> bytes:
    """The member's assignment in the format of its own protocol."""
    assert member.classic is not None
    assigned = tuple(
        EmbeddedPartitions(topic=name, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in member.assigned.items()
        if (name := catalog.name_of(topic_id)) is not None and partitions
    )
    version = version_of(member.classic.protocols[0].metadata)
    return write_assignment(EmbeddedAssignment(assigned_partitions=assigned), version)


def _classic_member(
    step: ConsumerStep, member_id: str, instance_id: str | None, generation: int
) -> ConsumerMember:
    if instance_id is not None:
        member = known_static_member(step.group, instance_id, member_id)
    else:
        found = step.group.members.get(member_id)
        if found is None:
            raise unknown_member(member_id)
        member = found
    if member.classic is None:
        raise unknown_member(member_id)
    if generation != member.epoch:
        raise RequestRefused(ErrorCode.ILLEGAL_GENERATION)
    return member


def _call_back(step: ConsumerStep, member: ConsumerMember) -> None:
    """Request the member to rejoin within its rebalance time-out."""
    step.timers.append(Arm(ConsumerTimer.JOIN, member.member_id, member.rebalance_timeout_ms, is_kept=True))


def heartbeat(step: ConsumerStep, heartbeat: Heartbeat) -> HeartbeatAnswer:
    member = _classic_member(step, heartbeat.member_id, heartbeat.instance_id, heartbeat.generation)
    step.arm_session(member)
    can_go_on = member.state is MemberState.UNREVOKED_PARTITIONS or (
        member.state is MemberState.UNRELEASED_PARTITIONS and not is_held_up(step.group, member)
    )
    if member.epoch < step.group.epochs.group or can_go_on:
        _call_back(step, member)
        return HeartbeatAnswer(error=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatAnswer()


def leave(step: ConsumerStep, leave: Leave) -> LeaveAnswer:
    """Members of either protocol, because an administrator may remove both."""
    had_newer = step.group.classic_count < len(step.group.members)
    results = tuple((leaving, _leave_one(step, leaving)) for leaving in leave.members)
    if any(error is ErrorCode.NONE for _, error in results):
        step.bump()
        step.becomes_classic = had_newer and _all_classic(step.group)
    return LeaveAnswer(members=results)


def _leave_one(step: ConsumerStep, leaving: LeavingMember) -> ErrorCode:
    group = step.group
    if leaving.instance_id is not None:
        member = group.static_member(leaving.instance_id)
        if member is not None and leaving.member_id not in (UNKNOWN_MEMBER, member.member_id):
            return ErrorCode.FENCED_INSTANCE_ID
    else:
        member = group.members.get(leaving.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    step.remove(member)
    return ErrorCode.NONE
