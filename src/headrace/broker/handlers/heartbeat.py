"""Heartbeat: a member reports that it is alive, and learns whether it must rejoin. 3: static members."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.events import Heartbeat
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, versions=(0, 4))
def heartbeat(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    beat = Heartbeat(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
    )
    return HeartbeatResponse(error_code=call.parts.groups.heartbeat(request.group_id, beat).error)
