"""LeaveGroup: a member leaves, or an administrator removes members.

3: many members in one request, static ones by `group.instance.id`. 5: the reason, which is ignored.
"""

from __future__ import annotations

from msgspec.structs import replace

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

MANY_SINCE = 3


@handles(ApiKey.LEAVE_GROUP, versions=(0, 5))
def leave_group(request: LeaveGroupRequest, call: Call) -> LeaveGroupResponse:
    if call.version >= MANY_SINCE:
        return call.parts.groups.leave(request)
    members = (MemberIdentity(member_id=request.member_id),)
    response = call.parts.groups.leave(replace(request, members=members))
    errors = [member.error_code for member in response.members if member.error_code]
    return LeaveGroupResponse(error_code=errors[0] if errors else response.error_code)
