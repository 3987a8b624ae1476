"""ShareGroupHeartbeat: a member of a share group joins, reports or leaves, and learns its partitions."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.share import Assignment, ShareHeartbeat
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import consumer_group_heartbeat as wire
from headrace.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


@handles(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1))
def share_group_heartbeat(request: ShareGroupHeartbeatRequest, call: Call) -> ShareGroupHeartbeatResponse:
    _check(request, call)
    result = call.parts.share_members.heartbeat(
        request.group_id,
        ShareHeartbeat(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            client_id=call.client_id,
            client_host=f"/{call.client.host}",
            rack_id=request.rack_id,
            topics=request.subscribed_topic_names,
        ),
    )
    config = call.parts.group_configs.share(request.group_id)
    return ShareGroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=config.heartbeat_interval_ms,
        assignment=None
        if result.assignment is None
        else _assigned(request.group_id, result.assignment, call),
    )


def _check(request: ShareGroupHeartbeatRequest, call: Call) -> None:
    call.parts.shares.require_available()
    if not request.group_id:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if not request.member_id:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if request.member_epoch < -1:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST, f"MemberEpoch is {request.member_epoch}, but must be -1 or more."
        )
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "SubscribedTopicNames must be set in first request.")
    if call.parts.groups.is_taken(request.group_id):
        raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a share group.")


def _assigned(group_id: str, assignment: Assignment, call: Call) -> wire.Assignment:
    """Set the start offsets of the group in its partitions too, so that it misses no record from now on."""
    partitions = []
    for topic_id, indexes in assignment.items():
        topic = call.parts.topics.get_by_id(topic_id)
        if topic is not None:
            call.parts.shares.start_topic(group_id, topic)
            partitions.append(wire.TopicPartitions(topic_id=topic.id, partitions=indexes))
    return wire.Assignment(topic_partitions=tuple(partitions))
