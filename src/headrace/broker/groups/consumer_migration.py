"""A classic group becomes one of the newer protocol, and back, while its members continue.

Upgrade: a member of the newer protocol joins a classic group of consumers. All members keep their partitions; the new
one starts a new epoch, and the responses to their heartbeats request the classic ones to rejoin.
Downgrade: the last member of the newer protocol leaves. The others become a classic group, which rebalances.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from headrace.broker.groups.consumer_classic import assignment_of
from headrace.broker.groups.consumer_embedded import read_assignment, read_subscription
from headrace.broker.groups.consumer_state import (
    Catalog,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    Owned,
)
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.events import TimerKind
from headrace.broker.groups.state import CONSUMER_PROTOCOL_TYPE, Group, GroupState, Member
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.primitives import MalformedMessage

STANDARD_PROTOCOLS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""Assignors without state that the broker could lose. (Kafka rejects user data of these, too.)"""


def upgrade(step: ConsumerStep, classic: Group) -> None:
    """Fill the step's group, which is new, with the members of a classic one."""
    if not classic.uses_consumer_protocol:
        raise RequestRejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {classic.group_id} is a classic group of other members than consumers.",
        )
    if classic.protocol_name not in STANDARD_PROTOCOLS and _has_own_data(classic):
        raise RequestRejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {classic.group_id} is a classic group that assigns in a way of its own "
            f"({classic.protocol_name}); move it to one of {', '.join(sorted(STANDARD_PROTOCOLS))} first.",
        )
    try:
        members = [_member(classic, member, step.catalog) for member in classic.members.values()]
    except MalformedMessage as error:
        raise RequestRejected(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {classic.group_id} is a classic group whose members can't be understood: {error.message}",
        ) from error
    step.waits_for_disk = True
    step.set_epochs(Epochs(group=classic.generation, target=classic.generation))
    for member in members:
        step.put(member)
        step.set_target(
            member.member_id,
            {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()},
        )
        step.arm(TimerKind.SESSION, member)


def _has_own_data(classic: Group) -> bool:
    """Whether members send user data to their leader."""
    with suppress(MalformedMessage):
        return any(read_subscription(member.protocols).user_data for member in classic.members.values())
    return False


def _member(classic: Group, member: Member, catalog: Catalog) -> ConsumerMember:
    subscription = read_subscription(member.protocols)
    # Also during a rebalance: until a member reports otherwise, it owns its last assignment.
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicSide(session_timeout_ms=member.session_timeout_ms, protocols=member.protocols),
        epoch=classic.generation,
        previous_epoch=classic.generation,
        assigned=_owned(member.assignment, classic.generation, catalog),
    )


def _owned(assignment: bytes, epoch: int, catalog: Catalog) -> Owned:
    owned: dict[uuid.UUID, dict[int, int]] = {}
    for one in read_assignment(assignment).assigned_partitions:
        topic = catalog.get(one.topic)
        if topic is not None:
            owned.setdefault(topic.id, {}).update(dict.fromkeys(one.partitions, epoch))
    return owned


def downgraded(group: ConsumerGroup, catalog: Catalog, now_ms: int) -> Group:
    """The classic group that the members become."""
    classic = Group(
        group_id=group.group_id,
        state=GroupState.STABLE,
        state_since_ms=now_ms,
        generation=group.epochs.group,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        leader_id=next(iter(group.members)),
    ).put(*(_classic_member(member, catalog) for member in group.members.values()))
    return replace(classic, protocol_name=classic.select_protocol())


def _classic_member(member: ConsumerMember, catalog: Catalog) -> Member:
    assert member.classic is not None
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=member.classic.protocols,
        assignment=assignment_of(member, catalog),
    )
