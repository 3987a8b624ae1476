"""Requests about groups, as short as a test wants to say them."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Any

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headrace.testing.wire import Wire

# The newest versions that name topics by name.
COMMIT_BY_NAME = 9
FETCH_OFFSETS_BY_NAME = 9


def subscription(*topics: str) -> bytes:
    """The metadata of a member for the leader: the topics that it subscribes to."""
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def join_request(group: str, member_id: str = "", *topics: str, **changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=subscription(*topics)),),
    }
    return JoinGroupRequest(**{**fields, **changes})


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    group: str
    member_id: str
    generation: int


def join(wire: Wire, group: str, *topics: str, version: int = 9, **changes: Any) -> GroupMember:
    """Join a group that has no other members; the sync is still to come."""
    response = wire.request(join_request(group, "", *topics, **changes), version=version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = wire.request(join_request(group, response.member_id, *topics, **changes), version=version)
    assert response.error_code == 0, ErrorCode(response.error_code)
    return GroupMember(group=group, member_id=response.member_id, generation=response.generation_id)


def sync_request(member: GroupMember, **changes: Any) -> SyncGroupRequest:
    fields: dict[str, Any] = {
        "group_id": member.group,
        "generation_id": member.generation,
        "member_id": member.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all"),),
    }
    return SyncGroupRequest(**{**fields, **changes})


def stable_member(wire: Wire, group: str, *topics: str, **changes: Any) -> GroupMember:
    """The only member of a stable group, whose assignment is «all»."""
    member = join(wire, group, *topics, **changes)
    response = wire.request(sync_request(member, group_instance_id=changes.get("group_instance_id")))
    assert (response.error_code, response.assignment) == (0, b"all")
    return member


def heartbeat(wire: Wire, member: GroupMember, *, version: int = 4, **changes: Any) -> ErrorCode:
    fields: dict[str, Any] = {
        "group_id": member.group,
        "generation_id": member.generation,
        "member_id": member.member_id,
    }
    return ErrorCode(wire.request(HeartbeatRequest(**{**fields, **changes}), version=version).error_code)


def commit(
    wire: Wire,
    group: str,
    topic: str | uuid.UUID,
    offset: int,
    *,
    partition: int = 0,
    metadata: str | None = "",
    leader_epoch: int = -1,
    member: GroupMember | None = None,
    version: int | None = None,
    **changes: Any,
) -> ErrorCode:
    """Commit one offset; the error of its partition."""
    wanted = (
        OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=leader_epoch,
            committed_metadata=metadata,
        ),
    )
    if isinstance(topic, str):
        named = OffsetCommitRequestTopic(name=topic, partitions=wanted)
    else:
        named = OffsetCommitRequestTopic(topic_id=topic, partitions=wanted)
    if version is None:
        version = COMMIT_BY_NAME if isinstance(topic, str) else 10
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": -1 if member is None else member.generation,
        "member_id": "" if member is None else member.member_id,
        "topics": (named,),
    }
    response = wire.request(OffsetCommitRequest(**{**fields, **changes}), version=version)
    return ErrorCode(response.topics[0].partitions[0].error_code)


def committed(wire: Wire, group: str, topic: str, *, partition: int = 0) -> int:
    """The offset that a group has committed, or -1."""
    wanted = OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,))
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),))
    (response,) = wire.request(request, version=FETCH_OFFSETS_BY_NAME).groups
    assert response.error_code == 0, ErrorCode(response.error_code)
    offset: int = response.topics[0].partitions[0].committed_offset
    return offset
