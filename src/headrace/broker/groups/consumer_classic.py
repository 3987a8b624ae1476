"""Members of the classic protocol in a group of the newer one: so a group is upgraded without stopping.

Each rejoins on its own: no member waits for the others, and none leads. What its protocol calls the generation is its
epoch here, and what it gets from SyncGroup is what the broker assigned to it.
"""

from __future__ import annotations

import uuid

from msgspec.structs import replace

from headrace.broker.groups.consumer import (
    check_room,
    known_member,
    reconcile,
    replace_static_member,
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
from headrace.broker.groups.consumer_reconciliation import Reported, is_blocked
from headrace.broker.groups.consumer_state import (
    Catalog,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.events import Join, Request, Response, TimerKind, failed_join, left
from headrace.broker.groups.state import CONSUMER_PROTOCOL_TYPE, UNKNOWN_MEMBER
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from headrace.protocol.primitives import MalformedMessage


def handle(step: ConsumerStep, request: Request) -> Response:
    """The response to a request of a classic member. Raises RequestRejected."""
    match request:
        case Join():
            return join(step, request)
        case SyncGroupRequest():
            return sync(step, request)
        case HeartbeatRequest():
            return heartbeat(step, request)
        case LeaveGroupRequest():
            return leave(step, request)


def join(step: ConsumerStep, join: Join) -> JoinGroupResponse:
    group = step.group
    is_new = join.member_id == UNKNOWN_MEMBER
    member_id = join.new_member_id if is_new else join.member_id
    check_room(step, member_id, join.instance_id)
    if join.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(join.protocols):
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if is_new and join.instance_id is None and join.needs_known_id:
        return failed_join(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    try:
        subscription = read_subscription(join.protocols)
    except MalformedMessage as error:
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error
    before = _member_before(step, join, member_id)
    member = _updated(before or ConsumerMember(member_id=member_id), join, subscription)
    step.put(member)
    reconciled = reconcile(step, before, member, _reported(subscription, step.catalog))
    step.cancel(TimerKind.JOIN, member)
    step.arm(TimerKind.SYNC, member)
    step.becomes_classic = before is not None and before.classic is None and _all_classic(group)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=reconciled.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=join.protocols[0].name,
    )


def _all_classic(group: ConsumerGroup) -> bool:
    return 0 < len(group.members) == group.classic_count


def _member_before(step: ConsumerStep, join: Join, member_id: str) -> ConsumerMember | None:
    if join.instance_id is None:
        return step.group.members.get(member_id)
    if join.member_id != UNKNOWN_MEMBER:
        return known_member(step.group, member_id, join.instance_id)
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
        topic = catalog.get(owned.topic)
        if topic is not None:
            reported[topic.id] = frozenset(owned.partitions)
    return reported


def sync(step: ConsumerStep, sync: SyncGroupRequest) -> SyncGroupResponse:
    member = _classic_member(step, sync)
    assert member.classic is not None
    chosen = member.classic.protocols[0].name
    if sync.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or sync.protocol_name not in (None, chosen):
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    # A member that still has to revoke partitions has rejoined already; it continues with what it keeps.
    is_behind = member.epoch < step.group.epochs.group
    if is_behind and member.state is not MemberState.UNREVOKED_PARTITIONS:
        step.arm(TimerKind.JOIN, member, is_kept=True)  # it must rejoin in time
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    step.cancel(TimerKind.SYNC, member)
    step.arm(TimerKind.SESSION, member)
    return SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=chosen,
        assignment=assignment_of(member, step.catalog),
    )


def assignment_of(member: ConsumerMember, catalog: Catalog) -> bytes:
    """The member's assignment in the format of its own protocol."""
    assert member.classic is not None
    assigned = tuple(
        EmbeddedPartitions(topic=topic.name, partitions=tuple(sorted(partitions)))
        for topic_id, partitions in member.assigned.items()
        if (topic := catalog.get_by_id(topic_id)) is not None and partitions
    )
    version = version_of(member.classic.protocols[0].metadata)
    return write_assignment(EmbeddedAssignment(assigned_partitions=assigned), version)


def _classic_member(step: ConsumerStep, request: SyncGroupRequest | HeartbeatRequest) -> ConsumerMember:
    member = known_member(step.group, request.member_id, request.group_instance_id)
    if member.classic is None:
        raise unknown_member(request.member_id)
    if request.generation_id != member.epoch:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    return member


def heartbeat(step: ConsumerStep, heartbeat: HeartbeatRequest) -> HeartbeatResponse:
    member = _classic_member(step, heartbeat)
    step.arm(TimerKind.SESSION, member)
    can_continue = member.state is MemberState.UNREVOKED_PARTITIONS or (
        member.state is MemberState.UNRELEASED_PARTITIONS and not is_blocked(step.group, member)
    )
    if member.epoch < step.group.epochs.group or can_continue:
        step.arm(TimerKind.JOIN, member, is_kept=True)  # it must rejoin in time
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatResponse()


def leave(step: ConsumerStep, leave: LeaveGroupRequest) -> LeaveGroupResponse:
    """Members of either protocol, because an administrator may remove both."""
    had_newer = step.group.classic_count < len(step.group.members)
    results = tuple(left(member, _leave_one(step, member)) for member in leave.members)
    if any(not result.error_code for result in results):
        step.bump()
        step.becomes_classic = had_newer and _all_classic(step.group)
    return LeaveGroupResponse(members=results)


def _leave_one(step: ConsumerStep, leaving: MemberIdentity) -> ErrorCode:
    group = step.group
    if leaving.group_instance_id is not None:
        member = group.static_member(leaving.group_instance_id)
        if member is not None and leaving.member_id not in (UNKNOWN_MEMBER, member.member_id):
            return ErrorCode.FENCED_INSTANCE_ID
    else:
        member = group.members.get(leaving.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    step.remove(member)
    return ErrorCode.NONE
