"""Requests about the offsets of share groups, as short as a test wants to say them."""

from __future__ import annotations

import uuid

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from headrace.testing.wire import Wire
from tests.broker.requests import batch, create_topic, new_name, produce
from tests.broker.share_requests import ACCEPT, ShareMember, set_group_configs


def alter(wire: Wire, group: str, topic: str, offset: int, *, partition: int = 0) -> ErrorCode:
    part = AlterShareGroupOffsetsRequestPartition(partition_index=partition, start_offset=offset)
    wanted = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=(part,))
    response = wire.request(AlterShareGroupOffsetsRequest(group_id=group, topics=(wanted,)))
    if response.error_code:
        return ErrorCode(response.error_code)
    return ErrorCode(response.responses[0].partitions[0].error_code)


class Consumed:
    """A topic of ten records, of which a group has accepted 0 to 4 and holds the rest."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.topic, self.group = new_name(), new_name("g")
        self.topic_id: uuid.UUID = create_topic(wire, self.topic)
        set_group_configs(wire, self.group, share_auto_offset_reset="earliest")
        produce(wire, self.topic, batch(*(b"x" for _ in range(10))))
        self.member = ShareMember(wire, self.group, self.topic_id)
        self.member.offsets()
        assert self.member.acknowledge((0, 4, ACCEPT)) is ErrorCode.NONE

    def alter(self, offset: int, *, topic: str | None = None, partition: int = 0) -> ErrorCode:
        return alter(self.wire, self.group, topic or self.topic, offset, partition=partition)

    def delete(self, *, topic: str | None = None) -> ErrorCode:
        wanted = DeleteShareGroupOffsetsRequestTopic(topic_name=topic or self.topic)
        response = self.wire.request(DeleteShareGroupOffsetsRequest(group_id=self.group, topics=(wanted,)))
        return ErrorCode(response.error_code or response.responses[0].error_code)
