"""DescribeTopicPartitions over the wire: pages, and the cursor from one to the next."""

from __future__ import annotations

from typing import Any

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headrace.testing.wire import Wire
from tests.broker.requests import create_topic, new_name


def page(wire: Wire, *names: str, limit: int, cursor: Cursor | None = None) -> Any:
    topics = tuple(TopicRequest(name=name) for name in names)
    return wire.request(
        DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
    )


def shown(response: Any) -> list[tuple[str, list[int]]]:
    return [(topic.name, [part.partition_index for part in topic.partitions]) for topic in response.topics]


def test_pages_join_to_all_partitions_in_the_order_of_names(wire: Wire) -> None:
    first, second = sorted((new_name(), new_name()))
    for name in (first, second):
        create_topic(wire, name, partitions=3)
    one = page(wire, second, first, limit=4)
    assert shown(one) == [(first, [0, 1, 2]), (second, [0])]
    two = page(wire, second, first, limit=4, cursor=one.next_cursor)
    assert shown(two) == [(second, [1, 2])]
    assert two.next_cursor is None


def test_page_that_ends_with_a_topic_continues_with_the_next_one(wire: Wire) -> None:
    first, second = sorted((new_name(), new_name()))
    for name in (first, second):
        create_topic(wire, name, partitions=2)
    response = page(wire, first, second, limit=2)
    assert shown(response) == [(first, [0, 1])]
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == (second, 0)


def test_partition_has_its_leader_and_replica(wire: Wire, topic: str) -> None:
    (partition,) = page(wire, topic, limit=10).topics[0].partitions
    assert partition.leader_id in partition.replica_nodes
    assert partition.isr_nodes == partition.replica_nodes
    assert partition.leader_epoch >= 0


def test_unknown_topic_has_its_own_error(wire: Wire, topic: str) -> None:
    unknown = new_name()
    response = page(wire, topic, unknown, limit=10)
    assert {one.name: one.error_code for one in response.topics} == {
        topic: ErrorCode.NONE,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
