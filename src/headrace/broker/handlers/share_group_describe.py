"""ShareGroupDescribe: state, members and assignments of share groups."""

from __future__ import annotations

from headrace.broker.authorized_operations import GROUP_OPERATIONS_ALL, NOT_REQUESTED
from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.share import ShareMember
from headrace.broker.handlers.consumer_group_describe import described_assignment
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.share_group_describe import (
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

ASSIGNOR = "simple"


@handles(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), is_long=True)
async def share_group_describe(request: ShareGroupDescribeRequest, call: Call) -> ShareGroupDescribeResponse:
    operations = GROUP_OPERATIONS_ALL if request.include_authorized_operations else NOT_REQUESTED
    described = await in_turns(request.group_ids, lambda group_id: _describe(group_id, operations, call))
    return ShareGroupDescribeResponse(groups=tuple(described))


def _describe(group_id: str, operations: int, call: Call) -> DescribedGroup:
    try:
        call.parts.shares.require_available()
    except RequestRejected as rejected:
        return DescribedGroup(group_id=group_id, error_code=rejected.code, error_message=rejected.message)
    group = call.parts.share_members.get(group_id)
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"Group {group_id} not found.",
        )
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.epoch,
        assignor_name=ASSIGNOR,
        members=tuple(_member(member, call) for member in group.members.values()),
        authorized_operations=operations,
    )


def _member(member: ShareMember, call: Call) -> Member:
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        assignment=described_assignment(member.assignment, call),
    )
