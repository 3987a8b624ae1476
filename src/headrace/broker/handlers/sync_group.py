"""SyncGroup: the leader sends the assignment, and every member gets its part of it.

3: static members. 5: the member must name its protocol.
"""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_SINCE = 5


@handles(ApiKey.SYNC_GROUP, versions=(0, 5))
def sync_group(request: SyncGroupRequest, call: Call) -> Awaitable[SyncGroupResponse]:
    names_protocol = request.protocol_type is not None and request.protocol_name is not None
    if call.version >= PROTOCOL_SINCE and not names_protocol:
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return call.parts.groups.sync(request)
