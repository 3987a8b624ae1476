"""Sizes on disk, read-only partitions and unhealthy brokers."""

from __future__ import annotations

from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from headrace.kafka.on_disk import health_problems, read_only_reasons, sizes_bytes, sizes_of_topics

TIMEOUT_S = 30.0


def test_sizes_are_of_partitions_and_sum_up_to_topics(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name, partitions=2)
    producer = Producer(cluster.client_config())
    producer.produce(name, b"x" * 1_000, partition=1)
    assert producer.flush(TIMEOUT_S) == 0
    brokers = cluster.brokers()

    by_partition = sizes_bytes(brokers, name, 2, TIMEOUT_S)

    assert by_partition[0] == 0
    assert by_partition[1] > 1_000
    assert sizes_of_topics(brokers, TIMEOUT_S)[name] == by_partition[1]


def test_broker_that_works_has_no_problems(cluster: Cluster, name: str) -> None:
    cluster.create_topic(name)
    (broker,) = cluster.brokers()
    (broker_id,) = cluster.metadata().brokers

    assert read_only_reasons(broker, name, TIMEOUT_S) == {}
    assert health_problems(broker, broker_id, TIMEOUT_S) == []
