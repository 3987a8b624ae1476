"""The requests of a sink that writes to a topic: create it, empty it, delete the fence."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed
from headrace.pipeline.sinks.topic_admin import delete_fence, empty_topic, ensure_topic


@pytest.fixture
def topic() -> str:
    return f"sink-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


def test_topic_is_created_once_and_its_limit_is_read(cluster: Cluster, topic: str) -> None:
    assert ensure_topic(cluster, topic, {"max.message.bytes": "5000"}) == 5_000
    assert ensure_topic(cluster, topic, {"max.message.bytes": "6000"}) == 5_000


def test_topic_is_emptied(cluster: Cluster, topic: str) -> None:
    ensure_topic(cluster, topic, {})
    producer = Producer(cluster.client_config())
    producer.produce(topic, b"row", partition=0)
    assert producer.flush(30) == 0

    empty_topic(cluster, topic)
    empty_topic(cluster, f"{topic}-that-does-not-exist")

    first = Partition(topic, 0)
    assert cluster.earliest([first]) == cluster.latest([first]) == {first: 1}


def test_compacted_topic_is_not_emptied_and_the_remedy_is_named(cluster: Cluster, topic: str) -> None:
    ensure_topic(cluster, topic, {"cleanup.policy": "compact"})

    with pytest.raises(RequestFailed, match="a compacted topic can't be emptied; delete it"):
        empty_topic(cluster, topic)


def test_fence_of_a_writer_is_deleted_with_all_of_its_parts_and_no_other(
    cluster: Cluster, topic: str
) -> None:
    ensure_topic(cluster, topic, {})
    writer, other = f"headrace-sink:job:{topic}", f"headrace-sink:job:{topic}2"
    for group in (writer, f"{writer}:part-1", other):
        cluster.commit(group, {Partition(topic, 0): 1})

    delete_fence(cluster, writer)

    left = {name for name, _ in cluster.groups(internal=True) if topic in name}
    assert left == {other}
