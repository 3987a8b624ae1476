from __future__ import annotations

import pytest

from headrace.events import EventsError, StoreUnavailable
from headrace.events.records import Topics
from headrace.events.topics import (
    message_bytes_max,
    prepare_command_topics,
    prepare_event_topics,
    prepare_topic,
)
from headrace.kafka.cluster import Cluster
from headrace.testing.ports import free_ports


def config(cluster: Cluster, topic: str, name: str) -> str | None:
    return cluster.configs("topic", topic)[name].value


def test_topics_keep_all_events_and_the_last_snapshots(cluster: Cluster, topic: str) -> None:
    topics = Topics.of(topic)
    assert prepare_event_topics(cluster, topics, 3) == 3
    assert prepare_event_topics(cluster, topics, 5) == 3  # it exists
    prepare_command_topics(cluster, topics, 3)
    for each in (topics.events, topics.rejected, topics.commands):
        assert (config(cluster, each, "cleanup.policy"), config(cluster, each, "retention.ms")) == (
            "delete",
            "-1",
        )
    assert config(cluster, topics.snapshots, "cleanup.policy") == "compact"
    assert config(cluster, topics.replies, "retention.ms") == "3600000"
    assert {len(cluster.partitions(each)) for each in (topics.snapshots, topics.replies)} == {3}


@pytest.mark.parametrize(
    "setting", [{"cleanup.policy": "compact"}, {"retention.ms": "1000"}, {"retention.bytes": "1000000"}]
)
def test_topic_that_deletes_events_is_rejected(cluster: Cluster, topic: str, setting: dict[str, str]) -> None:
    ((name, value),) = setting.items()
    cluster.create_topic(topic, partitions=1, config={"retention.ms": "-1", **setting})
    with pytest.raises(EventsError, match=f"{name}={value}, which deletes events"):
        prepare_event_topics(cluster, Topics.of(topic), 1)


def test_other_number_of_partitions_is_rejected(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(f"{topic}.rejected", partitions=2)
    with pytest.raises(EventsError, match="2 partitions"):
        prepare_event_topics(cluster, Topics.of(topic), 1)
    with pytest.raises(EventsError, match="2 partitions instead of 1"):
        prepare_topic(cluster, f"{topic}.rejected", partitions=1)


def test_limit_of_the_topic_is_read(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1, config={"max.message.bytes": "5000"})
    assert message_bytes_max(cluster, topic) == 5000


def test_missing_broker_is_an_error_with_the_address() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailable, match=str(port)):
        prepare_event_topics(Cluster(f"127.0.0.1:{port}", timeout_s=1), Topics.of("t"), 1)
