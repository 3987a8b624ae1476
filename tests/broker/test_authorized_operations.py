"""Who asks what may be done hears that everything may, in the bits that Kafka sends when it has no authorizer."""

from __future__ import annotations

from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.testing.wire import Wire

# Numbers of the operations, seen in answers of Apache Kafka 4.3.1.
TOPIC_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11}
CLUSTER_OPERATIONS = {5, 7, 8, 9, 10, 11, 12}
NOT_ASKED = -(2**31)

METADATA_WITH_CLUSTER_OPERATIONS = 10


def _operations(bits: int) -> set[int]:
    return {number for number in range(31) if bits >> number & 1}


def test_metadata_tells_the_operations_of_topic_and_cluster_when_asked(wire: Wire, topic: str) -> None:
    answer = wire.ask(
        MetadataRequest(
            topics=(MetadataRequestTopic(name=topic),),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        version=METADATA_WITH_CLUSTER_OPERATIONS,
    )
    assert _operations(answer.topics[0].topic_authorized_operations) == TOPIC_OPERATIONS
    assert _operations(answer.cluster_authorized_operations) == CLUSTER_OPERATIONS


def test_metadata_keeps_silent_about_operations_when_not_asked(wire: Wire, topic: str) -> None:
    answer = wire.ask(
        MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), version=METADATA_WITH_CLUSTER_OPERATIONS
    )
    assert answer.topics[0].topic_authorized_operations == NOT_ASKED
    assert answer.cluster_authorized_operations == NOT_ASKED


def test_describe_cluster_tells_operations_only_when_asked(wire: Wire) -> None:
    asked = wire.ask(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert _operations(asked.cluster_authorized_operations) == CLUSTER_OPERATIONS
    assert wire.ask(DescribeClusterRequest()).cluster_authorized_operations == NOT_ASKED


def test_describe_topic_partitions_always_tells_operations(wire: Wire, topic: str) -> None:
    answer = wire.ask(DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),)))
    assert _operations(answer.topics[0].topic_authorized_operations) == TOPIC_OPERATIONS
