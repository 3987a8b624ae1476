"""Members of share groups over the wire, as short as a test wants to say them."""

from __future__ import annotations

import uuid
from typing import Any

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import share_acknowledge, share_fetch
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.testing.wire import Wire
from tests.broker.requests import records_of

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
GROUP_RESOURCE = 32
WAIT_MS = 20_000
"""For records that will come: nothing sound takes so long, and a test that waits in vain fails."""


def set_group_configs(wire: Wire, group: str, **configs: object) -> ErrorCode:
    """`share_auto_offset_reset="earliest"` sets share.auto.offset.reset; None takes one away."""
    changes = tuple(
        AlterableConfig(
            name=name.replace("_", "."),
            config_operation=1 if value is None else 0,
            value=None if value is None else str(value),
        )
        for name, value in configs.items()
    )
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=changes)
    (response,) = wire.request(
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    ).responses
    return ErrorCode(response.error_code)


def heartbeat(wire: Wire, group: str, member: str, epoch: int, *topics: str) -> Any:
    return wire.request(
        ShareGroupHeartbeatRequest(
            group_id=group, member_id=member, member_epoch=epoch, subscribed_topic_names=topics or None
        )
    )


def assigned(response: Any) -> dict[uuid.UUID, tuple[int, ...]]:
    assert response.error_code == 0, ErrorCode(response.error_code)
    assert response.assignment is not None
    return {one.topic_id: one.partitions for one in response.assignment.topic_partitions}


def group_offset(
    wire: Wire, group: str, *, partition: int = 0
) -> DescribeShareGroupOffsetsResponsePartition | None:
    """Where a group stands in a partition of the only topic that it reads."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    (response,) = wire.request(DescribeShareGroupOffsetsRequest(groups=(wanted,))).groups
    found = [part for topic in response.topics for part in topic.partitions]
    return next((part for part in found if part.partition_index == partition), None)


class ShareMember:
    """A share session on one partition; it counts epochs, and knows what it holds."""

    def __init__(
        self,
        wire: Wire,
        group: str,
        topic_id: uuid.UUID,
        *,
        member: str | None = None,
        partition: int = 0,
        version: int = 2,
    ) -> None:
        self.wire = wire
        self.group = group
        self.topic_id = topic_id
        self.member_id = member or str(uuid.uuid4())
        self.partition = partition
        self.version = version
        self.epoch = 0
        self.held: list[tuple[int, int, int]] = []
        """First and last offset and delivery count of what the last fetch gave."""

    def fetch_request(self, *acknowledged: tuple[int, int, int], **changes: Any) -> Any:
        batches = tuple(
            share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(kind,))
            for first, last, kind in acknowledged
        )
        part = share_fetch.FetchPartition(partition_index=self.partition, acknowledgement_batches=batches)
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 0,
            "topics": (share_fetch.FetchTopic(topic_id=self.topic_id, partitions=(part,)),),
        }
        self.epoch += 1
        return share_fetch.ShareFetchRequest(**{**fields, **changes})

    def fetch_all(self, *acknowledged: tuple[int, int, int], **changes: Any) -> Any:
        """The whole answer."""
        return self.wire.request(self.fetch_request(*acknowledged, **changes), version=self.version)

    def fetch(self, *acknowledged: tuple[int, int, int], **changes: Any) -> Any:
        """The answer for the partition; None if it had nothing to say."""
        return self.take(self.fetch_all(*acknowledged, **changes))

    def take(self, response: Any) -> Any:
        assert response.error_code == 0, ErrorCode(response.error_code)
        parts = [part for topic in response.responses for part in topic.partitions]
        part = parts[0] if parts else None
        ranges = part.acquired_records if part is not None else ()
        self.held = [(one.first_offset, one.last_offset, one.delivery_count) for one in ranges]
        return part

    def offsets(self, *acknowledged: tuple[int, int, int], **changes: Any) -> list[int]:
        """Fetch; the offsets that are now locked for the member, each with its record in the answer."""
        part = self.fetch(*acknowledged, **changes)
        offsets = [offset for first, last, _ in self.held for offset in range(first, last + 1)]
        if part is not None:
            assert part.error_code == 0, ErrorCode(part.error_code)
            assert set(offsets) <= {record.offset for record in records_of(part.records or b"")}
        return offsets

    def offsets_and_values(self, **changes: Any) -> dict[int, bytes]:
        """Fetch; what is now locked for the member."""
        return self.values_in(self.fetch_all(**changes))

    def values_in(self, response: Any) -> dict[int, bytes]:
        part = self.take(response)
        offsets = {offset for first, last, _ in self.held for offset in range(first, last + 1)}
        records = records_of(part.records or b"") if part is not None else []
        return {record.offset: record.value or b"" for record in records if record.offset in offsets}

    def acknowledge_all(self, *batches: tuple[int, int, int | tuple[int, ...]], **changes: Any) -> Any:
        sent = tuple(
            share_fetch.AcknowledgementBatch(
                first_offset=first,
                last_offset=last,
                acknowledge_types=kind if isinstance(kind, tuple) else (kind,),
            )
            for first, last, kind in batches
        )
        part = share_acknowledge.AcknowledgePartition(
            partition_index=self.partition, acknowledgement_batches=sent
        )
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": (share_acknowledge.AcknowledgeTopic(topic_id=self.topic_id, partitions=(part,)),)
            if batches
            else (),
        }
        self.epoch += 1
        request = share_acknowledge.ShareAcknowledgeRequest(**{**fields, **changes})
        return self.wire.request(request, version=self.version)

    def acknowledge(self, *batches: tuple[int, int, int | tuple[int, ...]], **changes: Any) -> ErrorCode:
        response = self.acknowledge_all(*batches, **changes)
        if response.error_code or not batches:
            return ErrorCode(response.error_code)
        return ErrorCode(response.responses[0].partitions[0].error_code)

    def close(self) -> ErrorCode:
        return self.acknowledge(share_session_epoch=-1)
