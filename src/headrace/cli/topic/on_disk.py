"""What the disks of a cluster have of a topic: how much, and what keeps a partition or a broker from taking more.

confluent-kafka's admin client can't ask for that. Sizes come from Apache Kafka as well; that a partition is
read-only, or a broker unhealthy, only Headrace's broker answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from headrace.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from headrace.queue.connection import Connection

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
READ_ONLY_PARTITIONS = "headrace.read.only.partitions"
HEALTH = "headrace.health"

Address = tuple[str, int]


def sizes_bytes(brokers: Iterable[Address], topic: str, partitions: int, timeout_s: float) -> dict[int, int]:
    """By partition, of the largest replica; a partition that nobody tells of is not there."""
    wanted = DescribableLogDirTopic(topic=topic, partitions=tuple(range(partitions)))
    found: dict[int, int] = {}
    for host, port in brokers:
        with Connection(host, port, timeout_s) as broker:
            answer = broker.ask(DescribeLogDirsRequest(topics=(wanted,)), DescribeLogDirsResponse, version=1)
        for folder in answer.results:
            for one in folder.topics:
                for part in one.partitions:
                    found[part.partition_index] = max(part.partition_size, found.get(part.partition_index, 0))
    return found


def sizes_of_topics(brokers: Iterable[Address], timeout_s: float) -> dict[str, int]:
    """By topic, the sum over its partitions, each of the largest replica."""
    found: dict[tuple[str, int], int] = {}
    for host, port in brokers:
        with Connection(host, port, timeout_s) as broker:
            answer = broker.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version=1)
        for folder in answer.results:
            for one in folder.topics:
                for part in one.partitions:
                    place = (one.name, part.partition_index)
                    found[place] = max(part.partition_size, found.get(place, 0))
    sums: dict[str, int] = {}
    for (topic, _), size in found.items():
        sums[topic] = sums.get(topic, 0) + size
    return sums


def read_only_reasons(broker: Address, topic: str, timeout_s: float) -> dict[int, str]:
    """By partition, why it takes no records; empty from a broker that does not say."""
    answered = _asked(broker, TOPIC_RESOURCE, topic, READ_ONLY_PARTITIONS, timeout_s)
    return {int(partition): reason for partition, reason in json.loads(answered or "{}").items()}


def health_problems(broker: Address, broker_id: int, timeout_s: float) -> list[str]:
    """Why a broker can't do its work; empty from one that does not say."""
    problems: list[str] = json.loads(
        _asked(broker, BROKER_RESOURCE, str(broker_id), HEALTH, timeout_s) or "[]"
    )
    return problems


def _asked(broker: Address, resource_type: int, resource: str, key: str, timeout_s: float) -> str | None:
    wanted = DescribeConfigsResource(
        resource_type=resource_type, resource_name=resource, configuration_keys=(key,)
    )
    with Connection(*broker, timeout_s) as connection:
        answer = connection.ask(
            DescribeConfigsRequest(resources=(wanted,)), DescribeConfigsResponse, version=1
        )
    return next((config.value for config in answer.results[0].configs if config.name == key), None)
