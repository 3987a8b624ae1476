"""Heartbeat: a member reports that it is alive, and learns whether it must rejoin. 3: static members."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


@handles(ApiKey.HEARTBEAT, versions=(0, 4))
def heartbeat(request: HeartbeatRequest, call: Call) -> HeartbeatResponse:
    return call.parts.groups.heartbeat(request)
