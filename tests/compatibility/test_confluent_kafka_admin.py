"""confluent-kafka (librdkafka): administration."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic

from tests.compatibility.conftest import CreateTopic
from tests.compatibility.topic_contents import PATIENCE_S, read_to_end, write, write_values


def only(futures: dict[Any, Future[Any]]) -> Any:
    """The result of a request about one thing."""
    [future] = futures.values()
    return future.result(timeout=PATIENCE_S)


def error_code(futures: dict[Any, Future[Any]]) -> int:
    with pytest.raises(KafkaException) as rejected:
        only(futures)
    return int(rejected.value.args[0].code())


def eventually(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "timed out"
        time.sleep(0.05)


def topic_config(admin: AdminClient, topic: str) -> dict[str, Any]:
    entries: dict[str, Any] = only(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    return entries


def commit(bootstrap: str, group: str, *offsets: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=list(offsets), asynchronous=False)
    consumer.close()


def test_a_created_topic_is_listed_and_described(admin: AdminClient, create_topic: CreateTopic) -> None:
    topic = create_topic(partitions=3)

    assert len(admin.list_topics(timeout=PATIENCE_S).topics[topic].partitions) == 3
    described = only(admin.describe_topics(TopicCollection([topic])))
    assert described.name == topic
    assert not described.is_internal
    assert [p.id for p in described.partitions] == [0, 1, 2]
    for partition in described.partitions:
        assert [replica.id for replica in partition.replicas] == [partition.leader.id]
        assert [replica.id for replica in partition.isr] == [partition.leader.id]


@pytest.mark.parametrize(
    ("topic_arguments", "code"),
    [
        ({"topic": "not a legal name!"}, KafkaError.TOPIC_EXCEPTION),
        ({"num_partitions": 0}, KafkaError.INVALID_PARTITIONS),
        ({"replication_factor": 3}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"config": {"no.such.setting": "1"}}, KafkaError.INVALID_CONFIG),
        ({"config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_invalid_topic_is_rejected_with_the_matching_error(
    admin: AdminClient, name: str, topic_arguments: dict[str, Any], code: int
) -> None:
    new_topic = NewTopic(**{"topic": name, "num_partitions": 1, **topic_arguments})

    assert error_code(admin.create_topics([new_topic])) == code
    assert new_topic.topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_a_topic_cannot_be_created_twice(admin: AdminClient, topic: str) -> None:
    assert error_code(admin.create_topics([NewTopic(topic, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS


def test_validation_only_creates_nothing(admin: AdminClient, name: str) -> None:
    only(admin.create_topics([NewTopic(name, 1)], validate_only=True))

    assert name not in admin.list_topics(timeout=PATIENCE_S).topics


def test_name_of_a_deleted_topic_can_be_used_again(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic()
    write_values(bootstrap, topic, [b"old"])

    only(admin.delete_topics([topic]))
    eventually(lambda: topic not in admin.list_topics(timeout=PATIENCE_S).topics)
    assert error_code(admin.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART

    create_topic()
    write_values(bootstrap, topic, [b"new"])
    assert [(m.offset(), m.value()) for m in read_to_end(bootstrap, topic)] == [(0, b"new")]


def test_partitions_can_be_added_and_not_removed(bootstrap: str, admin: AdminClient, topic: str) -> None:
    only(admin.create_partitions([NewPartitions(topic, 3)]))
    eventually(lambda: len(admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions) == 3)

    write(bootstrap, topic, ({"value": str(n), "partition": n} for n in range(3)))
    assert {m.partition() for m in read_to_end(bootstrap, topic)} == {0, 1, 2}
    assert error_code(admin.create_partitions([NewPartitions(topic, 2)])) == KafkaError.INVALID_PARTITIONS


def test_configs_are_set_appended_to_and_deleted_one_by_one(
    admin: AdminClient, create_topic: CreateTopic
) -> None:
    topic = create_topic(retention_ms="1000000", segment_bytes="2000000")
    set_by_hand = topic_config(admin, topic)["retention.ms"]
    assert (set_by_hand.value, set_by_hand.is_default) == ("1000000", False)

    def change(setting: str, operation: AlterConfigOpType, value: str | None = None) -> None:
        entry = ConfigEntry(setting, value, incremental_operation=operation)
        only(
            admin.incremental_alter_configs(
                [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]
            )
        )

    change("retention.ms", AlterConfigOpType.SET, "2000000")
    change("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    eventually(lambda: topic_config(admin, topic)["retention.ms"].value == "2000000")
    config = topic_config(admin, topic)
    assert set(config["cleanup.policy"].value.split(",")) == {"delete", "compact"}
    assert config["segment.bytes"].value == "2000000"

    change("retention.ms", AlterConfigOpType.DELETE)
    change("cleanup.policy", AlterConfigOpType.SUBTRACT, "compact")
    eventually(lambda: bool(topic_config(admin, topic)["retention.ms"].is_default))
    config = topic_config(admin, topic)
    assert config["retention.ms"].value == "604800000"
    assert config["cleanup.policy"].value == "delete"


def test_invalid_config_is_rejected_and_changes_nothing(admin: AdminClient, topic: str) -> None:
    entry = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])

    assert error_code(admin.incremental_alter_configs([resource])) == KafkaError.INVALID_CONFIG
    assert topic_config(admin, topic)["retention.ms"].is_default


def test_configs_of_the_broker_are_described(admin: AdminClient) -> None:
    [broker_id] = admin.list_topics(timeout=PATIENCE_S).brokers
    config = only(admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker_id))]))

    assert config["auto.create.topics.enable"].value == "true"
    assert config["auto.create.topics.enable"].name == "auto.create.topics.enable"


def test_cluster_is_one_node_at_the_bootstrap_address(bootstrap: str, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(timeout=PATIENCE_S)

    assert [f"{node.host}:{node.port}" for node in described.nodes] == [bootstrap]
    assert described.controller.id == described.nodes[0].id
    assert described.cluster_id
    assert described.cluster_id == admin.list_topics(timeout=PATIENCE_S).cluster_id


def test_offsets_are_listed_by_position_and_by_time(bootstrap: str, admin: AdminClient, topic: str) -> None:
    # The record with the highest timestamp is not the last one.
    write(
        bootstrap,
        topic,
        [{"value": str(n), "timestamp": 1_600_000_000_000 + t} for n, t in enumerate([1, 9, 5])],
    )

    def offset(spec: OffsetSpec) -> tuple[int, int]:
        found = only(admin.list_offsets({TopicPartition(topic, 0): spec}))
        return found.offset, found.timestamp

    assert offset(OffsetSpec.earliest()) == (0, -1)
    assert offset(OffsetSpec.latest()) == (3, -1)
    assert offset(OffsetSpec.max_timestamp()) == (1, 1_600_000_000_009)
    assert offset(OffsetSpec.for_timestamp(1_600_000_000_002)) == (1, 1_600_000_000_009)


def test_deleted_records_are_no_longer_read(bootstrap: str, admin: AdminClient, topic: str) -> None:
    write_values(bootstrap, topic, (str(n).encode() for n in range(100)))

    assert only(admin.delete_records([TopicPartition(topic, 0, 60)])).low_watermark == 60

    assert [int(m.value()) for m in read_to_end(bootstrap, topic)] == list(range(60, 100))
    assert only(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})).offset == 60
    assert (
        error_code(admin.delete_records([TopicPartition(topic, 0, 1000)])) == KafkaError.OFFSET_OUT_OF_RANGE
    )


def test_an_empty_group_is_listed_described_and_deleted(
    bootstrap: str, admin: AdminClient, topic: str, name: str
) -> None:
    commit(bootstrap, name, TopicPartition(topic, 0, 5))

    listed = admin.list_consumer_groups().result(timeout=PATIENCE_S)
    assert listed.errors == []
    assert [group.state for group in listed.valid if group.group_id == name] == [ConsumerGroupState.EMPTY]
    only_stable = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(timeout=PATIENCE_S)
    assert name not in {group.group_id for group in only_stable.valid}
    described = only(admin.describe_consumer_groups([name]))
    assert (described.state, described.members) == (ConsumerGroupState.EMPTY, [])

    only(admin.delete_consumer_groups([name]))

    listed = admin.list_consumer_groups().result(timeout=PATIENCE_S)
    assert name not in {group.group_id for group in listed.valid}
    assert error_code(admin.delete_consumer_groups([name])) == KafkaError.GROUP_ID_NOT_FOUND


def test_the_offsets_of_an_empty_group_are_altered_and_listed(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic, name: str
) -> None:
    topic = create_topic(partitions=3)
    commit(bootstrap, name, TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6))

    moved = [TopicPartition(topic, 1, 2), TopicPartition(topic, 2, 3)]
    altered = only(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, moved)]))
    assert all(partition.error is None for partition in altered.topic_partitions)

    listed = only(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]))
    assert {(p.topic, p.partition, p.offset) for p in listed.topic_partitions} == {
        (topic, 0, 5),
        (topic, 1, 2),
        (topic, 2, 3),
    }
