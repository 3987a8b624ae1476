"""JoinGroup: become a member, or rejoin. The response waits until all members of the group have joined.

4: the first request gets an id, and the member repeats the request with it. 5: static members. 7: the response has
the protocol type. 9: a static leader that rejoins can skip the assignment.
"""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec.structs import replace

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.events import Join
from headrace.broker.groups.state import MemberProtocol
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

KNOWN_ID_SINCE = 4
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9


@handles(ApiKey.JOIN_GROUP, versions=(0, 9))
def join_group(request: JoinGroupRequest, call: Call) -> Awaitable[JoinGroupResponse]:
    # Before version 1 one timeout is used for both.
    has_rebalance_timeout = request.rebalance_timeout_ms >= 0
    join = Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=call.client_id,
        client_host=f"/{call.client.host}",  # as Kafka writes an address without a host name
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=request.rebalance_timeout_ms
        if has_rebalance_timeout
        else request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple(
            MemberProtocol(name=offer.name, metadata=bytes(offer.metadata)) for offer in request.protocols
        ),
        needs_known_id=call.version >= KNOWN_ID_SINCE,
        can_skip_assignment=call.version >= SKIP_ASSIGNMENT_SINCE,
    )
    return _respond(call.parts.groups.join(request.group_id, join), call.version)


async def _respond(joining: Awaitable[JoinGroupResponse], version: int) -> JoinGroupResponse:
    response = await joining
    if response.protocol_name is None and version < NULL_PROTOCOL_SINCE:
        return replace(response, protocol_name="")
    return response
