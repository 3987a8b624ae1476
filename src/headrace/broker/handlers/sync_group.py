"""SyncGroup: the leader sends the assignment, and every member gets its part of it.

3: static members. 5: the member must name its protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.events import Sync, SyncAnswer
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


@handles(ApiKey.SYNC_GROUP, versions=(0, 5))
def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_SINCE and not names_protocol:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    sync = Sync(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments={part.member_id: bytes(part.assignment) for part in request.assignments},
    )
    return _respond(call.parts.groups.sync(request.group_id, sync))


async def _respond(syncing: Awaitable[SyncAnswer]) -> SyncGroupResponse:
    answer = await syncing
    return SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
