"""Authorized operations: all of them, in the bits that Kafka sends without an authorizer."""

from __future__ import annotations

from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.testing.wire import Wire

# Numbers of the operations, as in responses of Apache Kafka 4.3.1.
TOPIC_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11}
CLUSTER_OPERATIONS = {5, 7, 8, 9, 10, 11, 12}
NOT_REQUESTED = -(2**31)

METADATA_WITH_CLUSTER_OPERATIONS = 10


def _operations(bits: int) -> set[int]:
    return {number for number in range(31) if bits >> number & 1}


def test_metadata_has_the_operations_of_topic_and_cluster_on_request(wire: Wire, topic: str) -> None:
    response = wire.request(
        MetadataRequest(
            topics=(MetadataRequestTopic(name=topic),),
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        version=METADATA_WITH_CLUSTER_OPERATIONS,
    )
    assert _operations(response.topics[0].topic_authorized_operations) == TOPIC_OPERATIONS
    assert _operations(response.cluster_authorized_operations) == CLUSTER_OPERATIONS


def test_metadata_has_no_operations_without_a_request(wire: Wire, topic: str) -> None:
    response = wire.request(
        MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), version=METADATA_WITH_CLUSTER_OPERATIONS
    )
    assert response.topics[0].topic_authorized_operations == NOT_REQUESTED
    assert response.cluster_authorized_operations == NOT_REQUESTED


def test_describe_cluster_has_operations_only_on_request(wire: Wire) -> None:
    requested = wire.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert _operations(requested.cluster_authorized_operations) == CLUSTER_OPERATIONS
    assert wire.request(DescribeClusterRequest()).cluster_authorized_operations == NOT_REQUESTED


def test_describe_topic_partitions_always_has_operations(wire: Wire, topic: str) -> None:
    response = wire.request(DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),)))
    assert _operations(response.topics[0].topic_authorized_operations) == TOPIC_OPERATIONS
