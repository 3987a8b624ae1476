"""Requests of members of the newer protocol, as short as a test wants to say them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    DescribedGroup,
)
from headrace.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headrace.testing.wire import Wire

Partitions = dict[uuid.UUID, tuple[int, ...]]


def consumer_heartbeat(
    wire: Wire, group: str, member_id: str, epoch: int, /, **changes: Any
) -> ConsumerGroupHeartbeatResponse:
    """One heartbeat with `changes`; the first one of a member has all required fields."""
    version = changes.pop("version", 1)
    fields: dict[str, Any] = {"group_id": group, "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        fields |= {"rebalance_timeout_ms": 60_000, "topic_partitions": ()}
    response: ConsumerGroupHeartbeatResponse = wire.request(
        ConsumerGroupHeartbeatRequest(**{**fields, **changes}), version=version
    )
    return response


def rejection(wire: Wire, group: str, member_id: str, epoch: int, /, **changes: Any) -> ErrorCode:
    return ErrorCode(consumer_heartbeat(wire, group, member_id, epoch, **changes).error_code)


@dataclass(slots=True, kw_only=True)
class WireMember:
    """A member that applies each assignment immediately."""

    wire: Wire
    group: str
    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    epoch: int = 0
    owned: Partitions = field(default_factory=dict)

    def beat(self, **changes: Any) -> ConsumerGroupHeartbeatResponse:
        if self.epoch == 0:
            changes = {"subscribed_topic_names": self.topics, **changes}
        else:
            changes = {"topic_partitions": self.reported(), **changes}
        response = consumer_heartbeat(
            self.wire, self.group, self.member_id, self.epoch, instance_id=self.instance_id, **changes
        )
        assert response.error_code == 0, response
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = {one.topic_id: one.partitions for one in response.assignment.topic_partitions}
        return response

    def reported(self) -> tuple[TopicPartitions, ...]:
        return tuple(
            TopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in self.owned.items()
        )

    @property
    def partitions(self) -> list[int]:
        """Of all topics together, where a test has but one."""
        return sorted(partition for partitions in self.owned.values() for partition in partitions)


def member(wire: Wire, group: str, member_id: str, *topics: str, **changes: Any) -> WireMember:
    """One that has joined."""
    joined = WireMember(wire=wire, group=group, member_id=member_id, topics=topics, **changes)
    joined.beat()
    return joined


def stabilize(*members: WireMember) -> None:
    """Let everybody report until nothing moves any more."""
    for _ in range(10):
        before = [(one.epoch, one.owned) for one in members]
        for one in members:
            one.beat()
        if before == [(one.epoch, one.owned) for one in members]:
            return
    raise AssertionError("the group never becomes stable")


def describe(wire: Wire, group: str, *, version: int = 1) -> DescribedGroup:
    [described] = wire.request(ConsumerGroupDescribeRequest(group_ids=(group,)), version=version).groups
    assert isinstance(described, DescribedGroup)
    return described
