"""Samples of topics."""

from __future__ import annotations

import uuid

from confluent_kafka import Producer

from headrace.kafka.cluster import Cluster
from headrace.views.topic_sample import SAMPLE, sample
from tests.compatibility.topic_contents import write
from tests.views.topics import create_topic


def cluster_with(bootstrap: str, *, partitions: int = 1) -> tuple[Cluster, str]:
    cluster, topic = Cluster(bootstrap, timeout_s=30), f"sampled-{uuid.uuid4().hex[:8]}"
    create_topic(cluster, topic, partitions=partitions)
    return cluster, topic


def test_sample_has_the_first_and_the_last_records_of_each_partition(bootstrap: str) -> None:
    cluster, topic = cluster_with(bootstrap, partitions=2)
    values = [str(number).encode() for number in range(3 * SAMPLE)]
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition, written in enumerate((values[:5], values)):
        for value in written:
            producer.produce(topic, value, partition=partition)
    assert producer.flush(60) == 0
    found = [each.value for each in sample(cluster, topic)]
    assert found == [*values[:5], *values[:SAMPLE], *values[-SAMPLE:]]


def test_empty_topic_has_an_empty_sample(bootstrap: str) -> None:
    assert list(sample(*cluster_with(bootstrap))) == []


def test_record_without_key_and_value_is_part_of_the_sample(bootstrap: str) -> None:
    cluster, topic = cluster_with(bootstrap)
    write(bootstrap, topic, [{"value": None}, {"value": b"x"}])
    assert [(each.key, each.value) for each in sample(cluster, topic)] == [(None, None), (None, b"x")]
