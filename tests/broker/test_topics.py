"""Topics over the wire: which names are legal, when they make themselves, and that deleting is for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import (
    batch,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    new_name,
    produce,
    read_all,
    values_of,
)
from tests.faults.broker_process import BrokerProcess

ILLEGAL_NAMES = ["", ".", "..", "with space", "a/b", "../escape", "ä", "x" * 250, "a\0b", "new\nline", "a:b"]


def create_code(wire: Wire, **wanted: object) -> int:
    (response,) = wire.request(CreateTopicsRequest(topics=(CreatableTopic(**wanted),))).topics  # type: ignore[arg-type]
    code: int = response.error_code
    return code


def metadata_of(wire: Wire, name: str, *, may_create: bool = True) -> tuple[int, int]:
    """Error code and number of partitions."""
    topic = MetadataRequestTopic(name=name)
    request = MetadataRequest(topics=(topic,), allow_auto_topic_creation=may_create)
    (response,) = wire.request(request, version=9).topics
    return response.error_code, len(response.partitions)


@pytest.mark.parametrize("name", ILLEGAL_NAMES)
def test_illegal_topic_name_is_rejected_by_every_api(wire: Wire, name: str) -> None:
    assert create_code(wire, name=name, num_partitions=1) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert metadata_of(wire, name) == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


@pytest.mark.parametrize("name", ["a", "x" * 249, "A.b_c-9", "...", "-"])
def test_legal_topic_name_can_be_created_written_found_and_deleted(tmp_path: Path, name: str) -> None:
    with Broker(tmp_path / "data", durability="os") as broker, Wire(broker.bootstrap) as wire:
        create_topic(wire, name, partitions=2)
        assert produce(wire, name, batch(b"x")).base_offset == 0
    with Broker(tmp_path / "data", durability="os") as broker, Wire(broker.bootstrap) as wire:
        assert produce(wire, name, batch(b"y")).base_offset == 1
        delete_topic(wire, name)
        assert metadata_of(wire, name, may_create=False)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with Broker(tmp_path / "data", durability="os") as broker, Wire(broker.bootstrap) as wire:
        assert metadata_of(wire, name, may_create=False)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_names_that_are_equal_in_metrics_are_rejected(wire: Wire) -> None:
    name = new_name("a.b_c")
    create_topic(wire, name)
    twin = name.replace(".", "_")
    assert create_code(wire, name=twin, num_partitions=1) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_impossible_topics_are_rejected_with_the_reason(wire: Wire, topic: str) -> None:
    assert create_code(wire, name=topic, num_partitions=1) == ErrorCode.TOPIC_ALREADY_EXISTS
    name = new_name()
    assert create_code(wire, name=name, num_partitions=0) == ErrorCode.INVALID_PARTITIONS
    assert create_code(wire, name=name, num_partitions=-2) == ErrorCode.INVALID_PARTITIONS
    assert create_code(wire, name=name, replication_factor=2) == ErrorCode.INVALID_REPLICATION_FACTOR
    for config in (("no.such.config", "1"), ("retention.ms", "soon"), ("cleanup.policy", "burn")):
        configs = (CreatableTopicConfig(name=config[0], value=config[1]),)
        assert create_code(wire, name=name, configs=configs) == ErrorCode.INVALID_CONFIG
    assert metadata_of(wire, name, may_create=False) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_topic_is_created_automatically_only_if_client_and_broker_allow_it(
    start_broker: StartBroker, connect: Connect
) -> None:
    willing = connect(start_broker(durability="os", default_partitions=3))
    assert metadata_of(willing, "t", may_create=False) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert metadata_of(willing, "t") == (0, 3)
    strict = connect(start_broker(durability="os", auto_create_topics=False))
    assert metadata_of(strict, "t") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


def test_topic_of_the_same_name_starts_empty_after_a_deletion(wire: Wire) -> None:
    name = new_name()
    for number in range(5):
        topic_id = create_topic(wire, name, partitions=2)
        assert produce(wire, topic_id, batch(b"%d" % number)).base_offset == 0
        assert values_of(fetch(wire, name)) == [b"%d" % number]
        delete_topic(wire, name)
        assert fetch(wire, topic_id).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_many_topics_in_one_request_are_checked_in_time_linear_in_their_number(wire: Wire) -> None:
    """Comparing each with every other would take minutes here."""
    topics = tuple(CreatableTopic(name=f"/{number}", num_partitions=1) for number in range(50_000))
    response = wire.request(CreateTopicsRequest(topics=topics))
    assert {one.error_code for one in response.topics} == {ErrorCode.INVALID_TOPIC_EXCEPTION}


def test_topic_named_twice_in_one_request_is_not_created(wire: Wire) -> None:
    name = new_name()
    twice = (CreatableTopic(name=name, num_partitions=1),) * 2
    response = wire.request(CreateTopicsRequest(topics=twice))
    assert [one.error_code for one in response.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert metadata_of(wire, name, may_create=False) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_topics_configs_deletions_and_deleted_records_survive_a_restart(tmp_path: Path, ending: str) -> None:
    broker = BrokerProcess(tmp_path / "data")
    with broker:
        with Wire(broker.bootstrap) as wire:
            topic_id = create_topic(wire, "kept", partitions=2, max_message_bytes="500")
            create_topic(wire, "deleted")
            produce(wire, "deleted", batch(b"x"))
            for number in range(10):
                produce(wire, "kept", batch(b"%d" % number))
            delete_topic(wire, "deleted")
            before = DeleteRecordsTopic(
                name="kept", partitions=(DeleteRecordsPartition(partition_index=0, offset=4),)
            )
            wire.request(DeleteRecordsRequest(topics=(before,)))
        broker.kill() if ending == "kill" else broker.stop()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            assert metadata_of(wire, "kept", may_create=False) == (0, 2)
            assert metadata_of(wire, "deleted", may_create=False)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert [record.offset for record in read_all(wire, "kept", offset=4)] == list(range(4, 10))
            assert fetch(wire, "kept", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert produce(wire, topic_id, batch(b"x" * 600)).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert end_offset(wire, "kept") == 10


def test_deleted_topic_leaves_no_file(tmp_path: Path) -> None:
    with Broker(tmp_path / "data", durability="os") as broker, Wire(broker.bootstrap) as wire:
        kept = {path.name for path in (tmp_path / "data").iterdir()}
        create_topic(wire, "t", partitions=3)
        produce(wire, "t", batch(b"x"))
        delete_topic(wire, "t")
        assert {path.name for path in (tmp_path / "data").iterdir()} == kept
        assert list((tmp_path / "data" / "metadata" / "topics").iterdir()) == []
