"""ConsumerGroupDescribe: groups of the newer protocol, with the current and the target assignment of their members.

1: which protocol a member uses.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from headrace.broker.authorized_operations import GROUP_OPERATIONS_ALL, NOT_REQUESTED
from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.assignors import UNIFORM
from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerMember
from headrace.broker.handlers.describe_groups import why_missing
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


@handles(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), is_long=True)
async def consumer_group_describe(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    operations = GROUP_OPERATIONS_ALL if request.include_authorized_operations else NOT_REQUESTED
    described = await in_turns(request.group_ids, lambda group_id: _describe(group_id, operations, call))
    return ConsumerGroupDescribeResponse(groups=tuple(described))


def _describe(group_id: str, operations: int, call: Call) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        group = call.parts.groups.consumer_group(group_id)
    except RequestRejected as rejected:
        return DescribedGroup(group_id=group_id, error_code=rejected.code)
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=why_missing(group_id, "consumer", call),
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epochs.group,
        assignment_epoch=group.epochs.target,
        assignor_name=group.most_wanted_assignor(UNIFORM),
        members=tuple(_member(group, member, call) for member in group.members.values()),
        authorized_operations=operations,
    )


def _member(group: ConsumerGroup, member: ConsumerMember, call: Call) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.pattern,
        assignment=described_assignment(member.assigned, call),
        target_assignment=described_assignment(group.target(member.member_id), call),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def described_assignment(assigned: Mapping[uuid.UUID, Iterable[int]], call: Call) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in assigned.items()
            if (topic := call.parts.topics.get_by_id(topic_id)) is not None
        )
    )
