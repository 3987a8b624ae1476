"""Topics to erase from, on the broker of the test run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from headrace.kafka.cluster import Cluster

WAIT_S = 60.0
"""Compaction takes less than a second in these brokers."""

CreateTopic = Callable[..., str]
Records = Iterable[tuple[str | bytes, str | bytes | None]]


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


@pytest.fixture
def create_topic(cluster: Cluster) -> CreateTopic:
    """Creates a topic of a name that nothing else in this run has; compacted, unless it is told otherwise."""

    def create(policy: str = "compact", *, partitions: int = 1, **config: str) -> str:
        name = f"people-{uuid.uuid4().hex[:12]}"
        named = {each.replace("_", "."): text for each, text in config.items()}
        cluster.create_topic(name, partitions=partitions, config={"cleanup.policy": policy, **named})
        cluster.require_topics([name], appear_s_max=10)  # of Apache Kafka: a moment later
        return name

    return create


@pytest.fixture
def topic(create_topic: CreateTopic) -> str:
    return create_topic()


def write(cluster: Cluster, topic: str, records: Records, **options: Any) -> None:
    producer = Producer(cluster.client_config(**{"linger.ms": 0, "queue.buffering.max.messages": 1_000_000}))
    for key, value in records:
        producer.produce(topic, value, key, **options)
        producer.poll(0)
    assert producer.flush(30) == 0


def read(cluster: Cluster, topic: str, *, isolation: str = "read_uncommitted") -> list[tuple[Any, Any]]:
    """Key and value of all records."""
    return [(message.key(), message.value()) for message in _messages(cluster, topic, isolation)]


def _messages(cluster: Cluster, topic: str, isolation: str) -> Iterator[Any]:
    starts = cluster.earliest(cluster.partitions(topic))
    consumer = Consumer(
        cluster.client_config(
            group_id=f"test-{uuid.uuid4().hex}",
            enable_auto_commit=False,
            isolation_level=isolation,
            enable_partition_eof=True,
            fetch_wait_max_ms=10,
        )
    )
    consumer.assign([TopicPartition(topic, each.number, start) for each, start in starts.items()])
    ended = 0
    while ended < len(starts):
        message = consumer.poll(30)
        assert message is not None, f"{topic} cannot be read"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
        else:
            yield message
    consumer.close()
