"""ConsumerGroupHeartbeat: a member of the newer protocol joins, reports or leaves, and learns its partitions.

1: members choose their own ids; regular expressions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from uuid import uuid4

from msgspec.structs import replace

from headrace.broker.configs.group_configs import CONSUMER_HEARTBEAT_INTERVAL
from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.consumer import ConsumerHeartbeat, ConsumerResult, check_heartbeat
from headrace.broker.groups.consumer_reconciliation import Reported
from headrace.broker.groups.consumer_state import JOIN_EPOCH, Owned
from headrace.broker.partition import Pending
from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

OWN_IDS_SINCE = 1

Response = ConsumerGroupHeartbeatResponse


@handles(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1))
def consumer_group_heartbeat(
    request: ConsumerGroupHeartbeatRequest, call: Call
) -> Response | Awaitable[Response]:
    heartbeat = ConsumerHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=request.subscribed_topic_names,
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        reported=None if request.topic_partitions is None else _reported(request.topic_partitions),
        client_id=call.client_id,
        client_host=f"/{call.client.host}",  # as Kafka writes an address without a host name
    )
    _check(request, heartbeat, call)
    if not request.member_id:
        heartbeat = replace(heartbeat, member_id=str(uuid4()))
    result, pending = call.parts.groups.consumer_heartbeat(request.group_id, heartbeat)
    response = _response(request.group_id, result, call)
    return response if pending is None else _when_durable(response, pending, call)


def _check(request: ConsumerGroupHeartbeatRequest, heartbeat: ConsumerHeartbeat, call: Call) -> None:
    if not request.group_id:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if call.version >= OWN_IDS_SINCE and not request.member_id:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    check_heartbeat(heartbeat)


def _reported(topics: Iterable[TopicPartitions]) -> Reported:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}


def _response(group_id: str, result: ConsumerResult, call: Call) -> Response:
    is_member = result.member_epoch >= JOIN_EPOCH
    interval_ms = call.parts.group_configs.value(group_id, CONSUMER_HEARTBEAT_INTERVAL)
    return Response(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=interval_ms if is_member else 0,
        assignment=None if result.assignment is None else _assignment(result.assignment),
    )


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in assigned.items()
            if partitions
        )
    )


async def _when_durable(response: Response, pending: Pending, call: Call) -> Response:
    try:
        await call.parts.flusher.durable(pending)
    except (HeadraceError, OSError):
        return Response(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return response
