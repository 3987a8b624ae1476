"""Topics, offsets, groups and configs of a cluster, and the errors of requests that fail."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaError, Producer

from headrace.kafka.cluster import Cluster, Partition, ResourceKind
from headrace.kafka.errors import RequestFailed
from headrace.testing import ports


@pytest.fixture
def topic(cluster: Cluster, name: str) -> str:
    cluster.create_topic(name, partitions=2)
    cluster.require_topics([name], appear_s_max=30)
    return name


@pytest.fixture
def numbers(cluster: Cluster, topic: str) -> str:
    """A topic with ten records in its first partition, at the times 0 to 9."""
    producer = Producer(cluster.client_config())
    for number in range(10):
        producer.produce(topic, str(number), partition=0, timestamp=1_700_000_000_000 + number)
    assert producer.flush(30) == 0
    return topic


def test_topic_is_created_once(cluster: Cluster, topic: str) -> None:
    assert cluster.partitions(topic) == [Partition(topic, 0), Partition(topic, 1)]
    assert not cluster.create_topic(topic, exist_ok=True)
    with pytest.raises(RequestFailed, match="if-not-exists") as failed:
        cluster.create_topic(topic)
    assert failed.value.code == KafkaError.TOPIC_ALREADY_EXISTS


def test_topics_gain_partitions_and_are_deleted(cluster: Cluster, topic: str) -> None:
    cluster.add_partitions(topic, 3)
    assert len(cluster.partitions(topic)) == 3
    with pytest.raises(RequestFailed, match="never removed"):
        cluster.add_partitions(topic, 1)

    cluster.delete_topics([topic])

    with pytest.raises(RequestFailed, match=f"there is no topic {topic}"):
        cluster.require_topics([topic])


def test_offsets_are_of_the_start_of_the_end_and_of_a_time(cluster: Cluster, numbers: str) -> None:
    first, second = cluster.partitions(numbers)

    assert cluster.earliest([first, second]) == {first: 0, second: 0}
    assert cluster.latest([first, second]) == {first: 10, second: 0}
    assert cluster.at_time([first, second], 1_700_000_000_004) == {first: 4, second: 0}
    assert cluster.at_time([first], 1_800_000_000_000) == {first: 10}
    assert cluster.latest([]) == {}


def test_records_before_an_offset_are_deleted(cluster: Cluster, numbers: str) -> None:
    first = Partition(numbers, 0)

    cluster.delete_records({first: 7})

    assert cluster.earliest([first]) == {first: 7}


def test_group_has_the_offsets_that_were_committed_until_it_is_deleted(
    cluster: Cluster, numbers: str, name: str
) -> None:
    first = Partition(numbers, 0)
    cluster.commit(name, {first: 4})

    assert cluster.committed(name) == {first: 4}
    assert name in dict(cluster.groups())
    described = cluster.describe_group(name)
    assert described is not None
    assert described.members == []

    cluster.delete_groups([name])

    assert cluster.committed(name) == {}
    assert name not in dict(cluster.groups(internal=True))
    cluster.delete_groups([name], missing_ok=True)
    with pytest.raises(RequestFailed, match="headrace group list"):
        cluster.delete_groups([name])


def test_groups_of_headrace_are_hidden_but_for_those_of_jobs(
    cluster: Cluster, numbers: str, name: str
) -> None:
    hidden, shown = f"headrace-sink:{name}", f"headrace-job-{name}"
    for group in (hidden, shown):
        cluster.commit(group, {Partition(numbers, 0): 1})

    assert {hidden, shown} & dict(cluster.groups()).keys() == {shown}
    assert {hidden, shown} <= dict(cluster.groups(internal=True)).keys()


def test_configs_are_set_and_reset(cluster: Cluster, topic: str) -> None:
    cluster.alter_configs("topic", topic, {"retention.ms": "5000", "max.message.bytes": "2000"})
    cluster.alter_configs("topic", topic, {"retention.ms": None})

    assert _is_applied(cluster, "topic", topic, "max.message.bytes", "2000")
    assert _is_applied(cluster, "topic", topic, "retention.ms", "604800000")
    with pytest.raises(RequestFailed, match="--all-configs"):
        cluster.alter_configs("topic", topic, {"retention.ms": "soon"})


def test_configs_of_a_group_can_be_set_before_it_has_members(cluster: Cluster, name: str) -> None:
    cluster.alter_configs("group", name, {"share.delivery.count.limit": "3"})

    assert _is_applied(cluster, "group", name, "share.delivery.count.limit", "3")


def test_broker_that_does_not_respond_is_named() -> None:
    address = f"127.0.0.1:{ports.free_port()}"

    with pytest.raises(RequestFailed, match=f"no broker answers at {address}: .*headrace broker"):
        Cluster(address, timeout_s=0.5).topics()


def test_topic_that_is_named_by_a_writer_is_created(cluster: Cluster, name: str) -> None:
    cluster.create_by_use(name)

    assert name in cluster.topics()
    with pytest.raises(RequestFailed, match="249 letters"):
        cluster.create_by_use("no topic has such a name")


def _is_applied(cluster: Cluster, kind: ResourceKind, name: str, config: str, value: str) -> bool:
    """Apache Kafka's nodes apply a change a moment after it was accepted."""
    deadline_s = time.monotonic() + 30
    while cluster.configs(kind, name)[config].value != value:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.05)
    return True
