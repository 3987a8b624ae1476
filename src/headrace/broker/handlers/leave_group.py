"""LeaveGroup: a member leaves, or an administrator removes members.

3: many members in one request, static ones by `group.instance.id`. 5: the reason, which is ignored.
"""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.events import Leave, LeavingMember
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse

MANY_SINCE = 3


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    if call.version < MANY_SINCE:
        return _leave_alone(request, call)
    leaving = tuple(
        LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id)
        for member in request.members
    )
    answer = call.parts.groups.leave(request.group_id, Leave(members=leaving))
    return LeaveGroupResponse(
        error_code=answer.error,
        members=tuple(
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=error)
            for member, error in answer.members
        ),
    )


def _leave_alone(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    leaving = LeavingMember(member_id=request.member_id, instance_id=None)
    answer = call.parts.groups.leave(request.group_id, Leave(members=(leaving,)))
    errors = [error for _, error in answer.members if error is not ErrorCode.NONE]
    return LeaveGroupResponse(error_code=errors[0] if errors else answer.error)
