"""Sizes of topics on disk, and why a partition or a broker accepts no records.

confluent-kafka's admin client has no calls for it. Apache Kafka reports sizes as well; only Headrace's broker reports
that a partition is read-only or a broker unhealthy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from headrace.kafka.connection import Connection
from headrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
READ_ONLY_PARTITIONS = "headrace.read.only.partitions"
HEALTH = "headrace.health"

Address = tuple[str, int]


def sizes_bytes(brokers: Iterable[Address], topic: str, partitions: int, timeout_s: float) -> dict[int, int]:
    """By partition, of the largest replica; a partition that no broker reports is missing."""
    wanted = DescribableLogDirTopic(topic=topic, partitions=tuple(range(partitions)))
    found = _sizes(brokers, DescribeLogDirsRequest(topics=(wanted,)), timeout_s)
    return {partition: size for (_, partition), size in found.items()}


def sizes_of_topics(brokers: Iterable[Address], timeout_s: float) -> dict[str, int]:
    """By topic, the sum over its partitions, each of the largest replica."""
    sums: dict[str, int] = {}
    for (topic, _), size in _sizes(brokers, DescribeLogDirsRequest(topics=None), timeout_s).items():
        sums[topic] = sums.get(topic, 0) + size
    return sums


def read_only_reasons(broker: Address, topic: str, timeout_s: float) -> dict[int, str]:
    """By partition, why it accepts no records; empty from a broker that does not report it."""
    with Connection(*broker, timeout_s) as connection:
        reported = connection.config(TOPIC_RESOURCE, topic, READ_ONLY_PARTITIONS)
    return {int(partition): reason for partition, reason in json.loads(reported or "{}").items()}


def health_problems(broker: Address, broker_id: int, timeout_s: float) -> list[str]:
    """Why a broker is unhealthy; empty from one that does not report it."""
    with Connection(*broker, timeout_s) as connection:
        problems: list[str] = json.loads(connection.config(BROKER_RESOURCE, str(broker_id), HEALTH) or "[]")
    return problems


def _sizes(
    brokers: Iterable[Address], request: DescribeLogDirsRequest, timeout_s: float
) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for host, port in brokers:
        with Connection(host, port, timeout_s) as broker:
            response = broker.request(request, DescribeLogDirsResponse, version=1)
        for folder in response.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    place = (topic.name, each.partition_index)
                    found[place] = max(each.partition_size, found.get(place, 0))
    return found
