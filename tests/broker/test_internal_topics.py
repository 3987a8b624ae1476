"""The broker's own topics: only it creates them, and no request of a client makes them useless."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.broker.internal_topics import INTERNAL_TOPICS, REASONS_TOPIC
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.find_coordinator import FindCoordinatorRequest
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.group_requests import commit
from tests.broker.requests import batch, create_topic, produce
from tests.broker.transaction_requests import TransactionalProducer

TOPIC = 2
BROKER_WRITTEN = [name for name in INTERNAL_TOPICS if name != REASONS_TOPIC]
DELETING = {"cleanup.policy": "delete", "retention.ms": "1000"}


@pytest.fixture
def wire(start_broker: StartBroker, connect: Connect) -> Wire:
    """A connection to a broker on which nothing has happened yet."""
    return connect(start_broker(default_partitions=3))


def topics(wire: Wire) -> dict[str, int]:
    listed = wire.request(MetadataRequest(topics=None)).topics
    return {topic.name: len(topic.partitions) for topic in listed}


def set_configs(wire: Wire, name: str) -> dict[str, str]:
    """The configs that the topic has of its own."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name)
    (response,) = wire.request(DescribeConfigsRequest(resources=(resource,))).results
    return {config.name: config.value for config in response.configs if config.config_source == 1}


def create(wire: Wire, name: str, partitions: int = -1, **configs: str) -> CreatableTopicResult:
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=-1,
        configs=tuple(
            CreatableTopicConfig(name=config.replace("_", "."), value=value)
            for config, value in configs.items()
        ),
    )
    (result,) = wire.request(CreateTopicsRequest(topics=(wanted,))).topics
    assert isinstance(result, CreatableTopicResult)
    return result


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_topic_that_metadata_creates_has_the_brokers_settings(wire: Wire, name: str) -> None:
    request = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True)
    (response,) = wire.request(request).topics
    assert (response.error_code, len(response.partitions), response.is_internal) == (0, 1, True)
    assert set_configs(wire, name) == INTERNAL_TOPICS[name]


@pytest.mark.parametrize("name", INTERNAL_TOPICS)
def test_topic_that_a_client_creates_has_the_brokers_settings(wire: Wire, name: str) -> None:
    made = create(wire, name)
    assert (made.error_code, made.num_partitions) == (0, 1)
    reported = {config.name: config.value for config in made.configs or () if config.config_source == 1}
    assert reported == set_configs(wire, name) == INTERNAL_TOPICS[name]


@pytest.mark.parametrize("name", BROKER_WRITTEN)
def test_creation_with_other_settings_is_rejected(wire: Wire, name: str) -> None:
    for rejected in (
        create(wire, name, 3),
        create(wire, name, retention_ms="1000", cleanup_policy="delete,compact"),
    ):
        assert rejected.error_code == ErrorCode.INVALID_REQUEST
        assert name in (rejected.error_message or "")
    assert topics(wire) == {}


def test_offsets_can_be_committed_after_a_client_requested_the_topic(wire: Wire) -> None:
    wire.request(
        MetadataRequest(
            topics=(MetadataRequestTopic(name="__consumer_offsets"),), allow_auto_topic_creation=True
        )
    )
    create_topic(wire, "t")
    assert commit(wire, "g", "t", 1) == 0


@pytest.mark.parametrize(("key_type", "name"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_find_coordinator_creates_the_topic_of_the_state(wire: Wire, key_type: int, name: str) -> None:
    (found,) = wire.request(FindCoordinatorRequest(key_type=key_type, coordinator_keys=("k",))).coordinators
    assert found.error_code == 0
    assert topics(wire) == {name: 1}


@pytest.mark.parametrize("name", BROKER_WRITTEN)
def test_clients_can_change_neither_records_nor_partitions_nor_settings(wire: Wire, name: str) -> None:
    create(wire, name)
    assert produce(wire, name, batch(b"x", key=b"k")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    grown = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name=name, count=5, assignments=None),))
    (response,) = wire.request(grown).results
    assert response.error_code == ErrorCode.INVALID_REQUEST

    part = DeleteRecordsPartition(partition_index=0, offset=0)
    cut = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=name, partitions=(part,)),))
    (topic,) = wire.request(cut).topics
    assert topic.partitions[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    for change in (
        AlterableConfig(name="cleanup.policy", config_operation=0, value="compact,delete"),
        AlterableConfig(name="max.message.bytes", config_operation=0, value="10"),
    ):
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(change,))
        (altered,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
        assert altered.error_code == ErrorCode.INVALID_REQUEST
    # Configs that lose no state may be set.
    harmless = AlterableConfig(name="min.cleanable.dirty.ratio", config_operation=0, value="0.1")
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=(harmless,))
    (altered,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert altered.error_code == 0
    assert set_configs(wire, name) == {**INTERNAL_TOPICS[name], "min.cleanable.dirty.ratio": "0.1"}


def test_clients_write_reasons(wire: Wire) -> None:
    create(wire, REASONS_TOPIC)
    assert produce(wire, REASONS_TOPIC, batch(b"why", key=b"g/t/0/0")).error_code == 0


def test_internal_topic_is_not_part_of_a_transaction(wire: Wire) -> None:
    create(wire, "__transaction_state")
    create_topic(wire, "t")
    producer = TransactionalProducer(wire, "x")
    producer.init()
    assert producer.add("__transaction_state") == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert producer.add("t") == [0]


def test_internal_topic_is_no_dead_letter_topic(wire: Wire) -> None:
    change = AlterableConfig(
        name="errors.deadletterqueue.topic.name", config_operation=0, value="__consumer_offsets"
    )
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=(change,))
    (altered,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    assert altered.error_code == ErrorCode.INVALID_CONFIG


# Folders in which a client created one


def folder_with_wrong_topic(folder: Path, start_broker: StartBroker, name: str) -> Path:
    """The topic of an older broker, with the configs of a client."""
    start_broker(folder).stop()
    saved = {"name": name, "id": "0f0e0d0c-0b0a-4908-8706-050403020100", "partitions": 3, "configs": DELETING}
    path = folder / "metadata" / "topics" / f"{name}.json"
    path.write_text(json.dumps(saved))
    return path


@pytest.mark.parametrize("name", BROKER_WRITTEN)
def test_start_corrects_a_topic_with_other_settings(
    tmp_path: Path, start_broker: StartBroker, connect: Connect, name: str
) -> None:
    folder_with_wrong_topic(tmp_path, start_broker, name)
    for _ in range(2):
        broker = start_broker(tmp_path)
        wire = connect(broker)
        assert topics(wire) == {name: 1}
        assert set_configs(wire, name) == {**DELETING, **INTERNAL_TOPICS[name]}
        broker.stop()
    assert not [*tmp_path.glob(f"{name}-[12]")]


def test_start_rejects_an_internal_topic_with_records_where_none_belong(
    tmp_path: Path, start_broker: StartBroker, connect: Connect
) -> None:
    path = folder_with_wrong_topic(tmp_path, start_broker, "t")
    broker = start_broker(tmp_path)
    produce(connect(broker), "t", batch(b"x"), partition=1)
    broker.stop()
    for number in range(3):
        (tmp_path / f"t-{number}").rename(tmp_path / f"__consumer_offsets-{number}")
    path.rename(path.with_name("__consumer_offsets.json")).write_text(
        path.with_name("__consumer_offsets.json").read_text().replace('"t"', '"__consumer_offsets"')
    )
    with pytest.raises(HeadraceError, match="__consumer_offsets-1"):
        start_broker(tmp_path)
