"""DescribeGroups: state, protocol and members of groups.

3: which operations the client may use. 4: static members. 6: a missing group is an error.
"""

from __future__ import annotations

from headrace.broker.authorized_operations import GROUP_OPERATIONS_ALL, NOT_REQUESTED
from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.state import Group, GroupState
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

NOT_FOUND_SINCE = 6


@handles(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), is_long=True)
async def describe_groups(request: DescribeGroupsRequest, call: Call) -> DescribeGroupsResponse:
    operations = GROUP_OPERATIONS_ALL if request.include_authorized_operations else NOT_REQUESTED
    described = await in_turns(request.groups, lambda group_id: _describe(group_id, operations, call))
    return DescribeGroupsResponse(groups=tuple(described))


def _describe(group_id: str, operations: int, call: Call) -> DescribedGroup:
    try:
        group = call.parts.groups.group(group_id)
    except RequestRejected as rejected:
        return DescribedGroup(group_id=group_id, error_code=rejected.code)
    if group is None:
        is_error = call.version >= NOT_FOUND_SINCE
        return DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if is_error else ErrorCode.NONE,
            error_message=why_missing(group_id, "classic", call) if is_error else None,
            # Only a group that exists has authorized operations.
            authorized_operations=NOT_REQUESTED if is_error else operations,
        )
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=_members(group, is_stable),
        authorized_operations=operations,
    )


def why_missing(group_id: str, kind: str, call: Call) -> str:
    is_other = call.parts.groups.is_taken(group_id)
    return f"Group {group_id} is not a {kind} group." if is_other else f"Group {group_id} not found."


def _members(group: Group, is_stable: bool) -> tuple[DescribedGroupMember, ...]:
    # Between generations neither the old nor the new assignment is valid.
    return tuple(
        DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata_for(group.protocol_name) if is_stable else b"",
            member_assignment=member.assignment if is_stable else b"",
        )
        for member in group.members.values()
    )
