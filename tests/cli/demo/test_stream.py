"""The producer and the consumer group of `headrace run`, on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from headrace import Broker
from headrace.cli.command import connect
from headrace.cli.demo.stream import GROUP, PARTITIONS, TOPIC, Clicks, Follower, create_topic
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Broker(data_dir=tmp_path / "data", durability="os") as broker:
        yield connect(broker.bootstrap)


def test_topic_is_created_once_and_keeps_an_hour(cluster: Cluster) -> None:
    create_topic(cluster)
    create_topic(cluster)

    assert len(cluster.partitions(TOPIC)) == PARTITIONS
    assert cluster.configs("topic", TOPIC)["retention.ms"].value == "3600000"


def test_clicks_are_json_that_the_group_reads_and_commits(cluster: Cluster) -> None:
    create_topic(cluster)
    with Clicks(cluster, rate=500) as clicks, Follower(cluster) as follower:
        while not sum(cluster.committed(GROUP).values()):
            clicks.check()
            follower.check()

    consumer = Consumer(cluster.client_config(group_id="reader", auto_offset_reset="earliest"))
    consumer.subscribe([TOPIC])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    click = json.loads(message.value() or b"")
    assert click.keys() == {"user", "url", "at"}
    assert message.key() == click["user"].encode()


def test_failure_of_a_worker_is_raised_by_its_check(cluster: Cluster) -> None:
    with Clicks(cluster, rate=float("nan")) as clicks:
        while clicks.failure is None:
            pass
        with pytest.raises(HeadraceError, match="the live stream stopped: cannot convert float NaN"):
            clicks.check()
