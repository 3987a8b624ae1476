"""DeleteGroups: delete groups without members, and their offsets."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.storage import append_error
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(ApiKey.DELETE_GROUPS, versions=(0, 2))
def delete_groups(request: DeleteGroupsRequest, call: Call) -> Awaitable[DeleteGroupsResponse]:
    deleting = {group_id: _delete(group_id, call) for group_id in request.groups_names}
    return _respond(deleting)


def _delete(group_id: str, call: Call) -> Awaitable[None] | ErrorCode:
    if call.parts.share_members.get(group_id) is not None:
        return call.parts.shares.delete_group(group_id)
    try:
        return call.parts.groups.delete(group_id)
    except RequestRejected as rejected:
        return rejected.code


async def _respond(deleting: Mapping[str, Awaitable[None] | ErrorCode]) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=tuple(
            [
                DeletableGroupResult(group_id=group_id, error_code=await _outcome(deletion))
                for group_id, deletion in deleting.items()
            ]
        )
    )


async def _outcome(deletion: Awaitable[None] | ErrorCode) -> ErrorCode:
    if isinstance(deletion, ErrorCode):
        return deletion
    try:
        await deletion
    except (HeadraceError, OSError) as error:
        return append_error(error)
    return ErrorCode.NONE
