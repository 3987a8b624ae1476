"""OffsetDelete over the wire."""

from __future__ import annotations

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupRequestProtocol
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from headrace.testing.wire import Wire
from tests.broker.group_requests import commit, committed, join, stable_member
from tests.broker.requests import create_topic, new_name


def delete_offsets(wire: Wire, group: str, *topics: str) -> dict[str, ErrorCode] | ErrorCode:
    """The error of each topic's partition, or of the whole request."""
    wanted = tuple(
        OffsetDeleteRequestTopic(name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=0),))
        for topic in topics
    )
    response = wire.request(OffsetDeleteRequest(group_id=group, topics=wanted))
    if response.error_code:
        return ErrorCode(response.error_code)
    return {topic.name: ErrorCode(topic.partitions[0].error_code) for topic in response.topics}


def test_offsets_of_topics_that_are_not_consumed_are_deleted(wire: Wire) -> None:
    group, consumed, other = new_name(), new_name(), new_name()
    for topic in (consumed, other):
        create_topic(wire, topic)
        commit(wire, group, topic, 5)
    stable_member(wire, group, consumed)
    assert delete_offsets(wire, group, consumed, other, "not-there") == {
        consumed: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        other: ErrorCode.NONE,
        "not-there": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert (committed(wire, group, consumed), committed(wire, group, other)) == (5, -1)


def test_any_offset_of_an_empty_group_is_deleted(wire: Wire, topic: str) -> None:
    group = new_name()
    commit(wire, group, topic, 5)
    assert delete_offsets(wire, group, topic) == {topic: ErrorCode.NONE}
    assert committed(wire, group, topic) == -1


def test_missing_group_is_rejected(wire: Wire, topic: str) -> None:
    assert delete_offsets(wire, new_name(), topic) is ErrorCode.GROUP_ID_NOT_FOUND


def test_group_whose_subscription_is_unreadable_keeps_all_offsets(wire: Wire, topic: str) -> None:
    consumers = stable_member(
        wire, new_name(), protocols=(JoinGroupRequestProtocol(name="range", metadata=b"?"),)
    )
    assert delete_offsets(wire, consumers.group, topic) == {topic: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    workers = join(wire, new_name(), protocol_type="connect")
    assert delete_offsets(wire, workers.group, topic) is ErrorCode.NON_EMPTY_GROUP
