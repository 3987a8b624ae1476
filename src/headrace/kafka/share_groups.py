"""Share groups as an operator sees them: their members, their positions, and how many messages are not done.

confluent-kafka's admin client has no calls for it yet.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from headrace.kafka.connection import Connection
from headrace.kafka.errors import NoSuchGroup, RequestFailed
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

GROUP_RESOURCE = 32
NUMBERS = "headrace.share.numbers"
"""Counts that only Headrace's broker reports, as a read-only config that has to be requested by its name."""


class PartitionState(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    start_offset: int
    """The first record that is not done; -1 if the group has no position yet."""
    not_done: int | None
    """Records that are available, locked or waiting for a retry; None if the broker does not report it."""


class MemberState(Struct, frozen=True, kw_only=True):
    member_id: str
    client_id: str
    host: str
    partitions: int
    in_flight: int | None
    """Messages that it has locked; None if the broker does not report it."""


class GroupState(Struct, frozen=True, kw_only=True):
    group: str
    state: str
    members: Sequence[MemberState]
    partitions: Sequence[PartitionState]
    in_flight: int | None
    """Messages that are locked; None if the broker does not report it, as Apache Kafka doesn't."""
    redelivered: int | None
    """Deliveries since the broker's start that were not a message's first; None if the broker does not report it."""

    @property
    def not_done(self) -> int | None:
        """None if the broker does not report it. Partitions without a position do not count."""
        counts = [each.not_done for each in self.partitions if each.start_offset >= 0]
        return None if None in counts else sum(each or 0 for each in counts)


def list_share_groups(brokers: Sequence[tuple[str, int]], timeout_s: float) -> list[tuple[str, str]]:
    """Names and states. Each broker lists only the groups that it coordinates."""
    found: dict[str, str] = {}
    for host, port in brokers:
        with Connection(host, port, timeout_s) as broker:
            listed = broker.request(ListGroupsRequest(types_filter=("share",)), ListGroupsResponse, version=5)
            _check(listed.error_code, None, "listing groups")
            # A broker without the filter ignores it.
            found |= {each.group_id: each.group_state for each in listed.groups if each.group_type == "share"}
    return sorted(found.items())


def describe_share_group(broker: tuple[str, int], group: str, timeout_s: float) -> GroupState:
    with Connection(*broker, timeout_s) as bootstrap:
        found = bootstrap.request(
            FindCoordinatorRequest(coordinator_keys=(group,)), FindCoordinatorResponse, version=4
        ).coordinators[0]
        _check(found.error_code, found.error_message, f"finding the coordinator of group {group}")
    with Connection(found.host, found.port, timeout_s) as coordinator:
        described = coordinator.request(
            ShareGroupDescribeRequest(group_ids=(group,)), ShareGroupDescribeResponse, version=1
        ).groups[0]
        if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND or described.group_state == "Dead":
            raise NoSuchGroup(
                f"there is no queue group {group}", hint="`headrace queue list` lists the groups"
            )
        _check(described.error_code, described.error_message, f"describing group {group}")
        wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        offsets = coordinator.request(
            DescribeShareGroupOffsetsRequest(groups=(wanted,)), DescribeShareGroupOffsetsResponse, version=1
        ).groups[0]
        _check(offsets.error_code, offsets.error_message, f"reading the offsets of group {group}")
        # Empty from a broker that does not report them.
        numbers = json.loads(coordinator.config(GROUP_RESOURCE, group, NUMBERS) or "{}")
    in_flight_by_member = numbers.get("in_flight_by_member")
    return GroupState(
        group=group,
        state=described.group_state.lower(),
        members=[_member(each, in_flight_by_member) for each in described.members],
        partitions=sorted(
            (_partition(topic.topic_name, each) for topic in offsets.topics for each in topic.partitions),
            key=lambda each: (each.topic, each.partition),
        ),
        in_flight=numbers.get("in_flight"),
        redelivered=numbers.get("redelivered"),
    )


def _member(member: Any, in_flight_by_member: dict[str, int] | None) -> MemberState:
    assigned = member.assignment.topic_partitions
    return MemberState(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host.removeprefix("/"),
        partitions=sum(len(each.partitions) for each in assigned),
        in_flight=None if in_flight_by_member is None else in_flight_by_member.get(member.member_id, 0),
    )


def _partition(topic: str, partition: Any) -> PartitionState:
    return PartitionState(
        topic=topic,
        partition=partition.partition_index,
        start_offset=partition.start_offset,
        not_done=partition.lag if partition.lag >= 0 else None,
    )


def _check(code: int, message: str | None, doing: str) -> None:
    if code:
        try:
            name = ErrorCode(code).name
        except ValueError:
            name = f"error {code}"
        raise RequestFailed(f"{doing}: {message or name}", code=code)
