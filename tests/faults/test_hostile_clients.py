"""Clients that cost the broker much and send little: each alone is bounded, and the others continue meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from headrace.broker.configs.definitions import GROUP
from headrace.protocol.codec import REQUEST_ELEMENTS_MAX
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.describe_groups import DescribeGroupsRequest
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.protocol.messages.leave_group import LeaveGroupRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.protocol.primitives import uvarint
from headrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader, pack_batch
from headrace.records.compression import Codec, compress
from headrace.testing.wire import Wire, encode_request
from tests.broker.requests import (
    FETCH_BY_NAME,
    NOW_MS,
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    fetch_request,
    produce,
    produce_request,
)
from tests.faults.broker_process import BrokerProcess

MEGABYTE = 1024 * 1024
FOR_EVER_MS = 2**31 - 1
# Length, attributes, timestamp, offset, no key, no value, no headers.
SMALLEST_RECORD = bytes([12, 0, 0, 0, 1, 1, 0])


@pytest.fixture
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BrokerProcess]:
    """With the settings that the test names in `@with_settings(...)`."""
    settings = getattr(request, "param", {})
    with BrokerProcess(tmp_path / "data", **{"durability": "os", **settings}) as running:
        yield running
        assert "Traceback" not in running.log, running.log


def with_settings(**settings: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("broker", [settings], indirect=True, ids=[""])


@pytest.fixture
def other(broker: BrokerProcess) -> Iterator[Wire]:
    """An ordinary client, and a topic of its own."""
    with Wire(broker.bootstrap, client_id="other") as wire:
        create_topic(wire, "others")
        yield wire


def goes_on(other: Wire) -> None:
    assert produce(other, "others", batch(b"x")).error_code == 0


def batch_of_many(count: int) -> bytes:
    """A batch of keyless records as small as they can be."""
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=Codec.ZSTD,
        last_offset_delta=count - 1,
        base_timestamp_ms=NOW_MS,
        max_timestamp_ms=NOW_MS,
        producer_id=NO_PRODUCER_ID,
        producer_epoch=NO_PRODUCER_EPOCH,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return pack_batch(header, compress(Codec.ZSTD, SMALLEST_RECORD * count))


# Records


def test_batch_of_millions_of_records_in_kilobytes_is_rejected_without_a_look_inside(
    broker: BrokerProcess, other: Wire
) -> None:
    create_topic(other, "compacted", cleanup_policy="compact")
    before = broker.peak_resident_bytes()
    bomb = batch_of_many(9_500_000)
    assert len(bomb) < 10_000
    for name in ("compacted", "others"):
        rejected = produce(other, name, bomb)
        assert rejected.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert "9500000 records" in (rejected.error_message or "")
    assert broker.peak_resident_bytes() - before < 20 * MEGABYTE


@with_settings(batch_records_max=5_000_000)
def test_other_clients_continue_while_a_large_batch_is_inspected(broker: BrokerProcess, other: Wire) -> None:
    create_topic(other, "compacted", cleanup_policy="compact")
    with Wire(broker.bootstrap) as hostile:
        hostile.send(produce_request("compacted", batch_of_many(5_000_000)), version=PRODUCE_BY_NAME)
        for _ in range(5):
            goes_on(other)
        assert not hostile.has_response(within_s=0.001), "it is still inspected"
        assert broker.peak_resident_bytes() < 300 * MEGABYTE


def test_error_names_the_first_few_of_many_records_without_key(broker: BrokerProcess, other: Wire) -> None:
    create_topic(other, "compacted", cleanup_policy="compact")
    rejected = produce(other, "compacted", batch_of_many(100_000))
    assert rejected.error_code == ErrorCode.INVALID_RECORD
    assert "100000 of the batch's records" in (rejected.error_message or "")
    assert [one.batch_index for one in rejected.record_errors] == [*range(10)]


# Memory


@with_settings(inflight_bytes_max=20 * MEGABYTE, metrics_port=0)
def test_long_polls_with_megabytes_in_an_unknown_field_delay_no_client(
    broker: BrokerProcess, other: Wire
) -> None:
    poll = encode_request(fetch_request("others", max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME, 1, "hostile")
    before = broker.resident_bytes()
    with ExitStack() as stack:
        hostile = [stack.enter_context(Wire(broker.bootstrap)) for _ in range(6)]
        for wire in hostile:
            wire.send_frame(poll[:-1] + b"\1\x7f" + uvarint(8 * MEGABYTE) + b"\0" * (8 * MEGABYTE))
        for _ in range(5):
            assert other.request(MetadataRequest(topics=None), version=9).topics
        assert not any(wire.has_response(within_s=0.001) for wire in hostile), "they still wait"
        assert broker.resident_bytes() - before < 60 * MEGABYTE


@with_settings(inflight_bytes_max=40 * MEGABYTE)
def test_consumers_that_are_suspended_delay_no_client_and_are_named(
    broker: BrokerProcess, other: Wire
) -> None:
    create_topic(other, "large", max_message_bytes=str(10 * MEGABYTE))
    for _ in range(4):
        assert produce(other, "large", batch(b"x" * (8 * MEGABYTE))).error_code == 0
    before = broker.resident_bytes()
    with ExitStack() as stack:
        for number in range(12):
            suspended = stack.enter_context(
                Wire(broker.bootstrap, client_id=f"suspended-{number}", receive_buffer_bytes=4096)
            )
            suspended.send(fetch_request("large", partition_max_bytes=50 * MEGABYTE), version=FETCH_BY_NAME)
            goes_on(other)
        for _ in range(5):
            goes_on(other)
        # Twice the bound: what all share, and again the shares of those that hold little.
        assert broker.resident_bytes() - before < 110 * MEGABYTE
        assert "client_id=suspended-" in broker.log
        assert "unsent_bytes=" in broker.log


@with_settings(inflight_bytes_max=40 * MEGABYTE)
def test_reader_with_a_hundred_fetches_in_flight_uses_the_memory_of_one_connection(
    broker: BrokerProcess, other: Wire
) -> None:
    """All of them wait, and are woken together."""
    create_topic(other, "large", max_message_bytes=str(10 * MEGABYTE))
    before = broker.resident_bytes()
    poll = fetch_request(
        "large", partition_max_bytes=50 * MEGABYTE, max_wait_ms=FOR_EVER_MS, min_bytes=30 * MEGABYTE
    )
    with Wire(broker.bootstrap, receive_buffer_bytes=4096) as greedy:
        for _ in range(100):
            greedy.send(poll, version=FETCH_BY_NAME)
        for _ in range(4):
            assert produce(other, "large", batch(b"x" * (8 * MEGABYTE))).error_code == 0
        for _ in range(5):
            goes_on(other)
        assert broker.peak_resident_bytes() - before < 120 * MEGABYTE


# Requests that take long


def many_topics(prefix: str, count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=f"{prefix}-{number}", num_partitions=1, replication_factor=1)
            for number in range(count)
        )
    )


def test_other_clients_continue_while_many_topics_are_created_and_deleted(
    broker: BrokerProcess, other: Wire
) -> None:
    count = 500
    with Wire(broker.bootstrap) as busy:
        busy.send(many_topics("t", count))
        for _ in range(5):
            goes_on(other)
        assert not busy.has_response(within_s=0.001), "topics are still created"
        # The next request finds all of its topics.
        busy.send(MetadataRequest(topics=None), version=9)
        assert {one.error_code for one in busy.receive().topics} == {0}
        assert len(busy.receive().topics) == count + 1
        busy.send(
            DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=f"t-{one}") for one in range(count)))
        )
        for _ in range(5):
            goes_on(other)
        assert not busy.has_response(within_s=0.001), "topics are still deleted"
        assert {one.error_code for one in busy.receive().responses} == {0}


def test_other_clients_continue_while_one_topic_of_many_partitions_is_created_grows_and_is_deleted(
    broker: BrokerProcess, other: Wire
) -> None:
    many = CreatableTopic(name="many", num_partitions=1_000, replication_factor=1)
    with Wire(broker.bootstrap) as busy:
        goes_on(busy)  # a connection that is not accepted yet would be served after the other one
        busy.send(CreateTopicsRequest(topics=(many,)))
        goes_on(other)
        (taken,) = other.request(CreateTopicsRequest(topics=(many,))).topics
        assert taken.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert not busy.has_response(within_s=0.001), "partitions are still created"
        assert busy.receive().topics[0].error_code == 0
        busy.send(CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="many", count=2_000),)))
        goes_on(other)
        delete = DeleteTopicsRequest(topics=(DeleteTopicState(name="many"),))
        assert other.request(delete).responses[0].error_code == ErrorCode.INVALID_PARTITIONS, "it grows"
        assert not busy.has_response(within_s=0.001), "partitions are still added"
        assert busy.receive().results[0].error_code == 0
        busy.send(delete)
        goes_on(other)
        (taken,) = other.request(CreateTopicsRequest(topics=(many,))).topics
        assert taken.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "its folders still exist"
        assert not busy.has_response(within_s=0.001), "partitions are still deleted"
        assert busy.receive().responses[0].error_code == 0
    create_topic(other, "many")


def test_other_clients_continue_while_many_topics_are_auto_created(
    broker: BrokerProcess, other: Wire
) -> None:
    with Wire(broker.bootstrap) as busy:
        names = tuple(MetadataRequestTopic(name=f"auto-{number}") for number in range(500))
        busy.send(MetadataRequest(topics=names), version=9)
        for _ in range(5):
            goes_on(other)
        assert not busy.has_response(within_s=0.001), "topics are still created"
        assert {one.error_code for one in busy.receive().topics} == {0}


def test_configs_of_many_groups_are_written_together(broker: BrokerProcess, other: Wire) -> None:
    count = 6_000
    resources = tuple(
        AlterConfigsResource(
            resource_type=GROUP,
            resource_name=f"group-{number}",
            configs=(AlterableConfig(name="share.delivery.count.limit", config_operation=0, value="7"),),
        )
        for number in range(count)
    )
    with Wire(broker.bootstrap) as busy:
        answer = busy.request(IncrementalAlterConfigsRequest(resources=resources, validate_only=False))
        assert [one.error_code for one in answer.responses] == [0] * count
    goes_on(other)
    broker.kill()
    broker.start()
    described = DescribeConfigsResource(resource_type=GROUP, resource_name=f"group-{count - 1}")
    with Wire(broker.bootstrap) as wire:
        (found,) = wire.request(DescribeConfigsRequest(resources=(described,))).results
    assert "7" in {one.value for one in found.configs if one.name == "share.delivery.count.limit"}


def test_other_clients_continue_while_configs_of_many_groups_are_described(
    broker: BrokerProcess, other: Wire
) -> None:
    count = 3_000
    resources = tuple(
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"group-{number}")
        for number in range(count)
    )
    with Wire(broker.bootstrap) as busy:
        # The response has each once, however often it is requested.
        busy.send(DescribeConfigsRequest(resources=resources * 3, include_documentation=True))
        for _ in range(5):
            goes_on(other)
        assert not busy.has_response(within_s=0.001), "they are still described"
        assert len(busy.receive().results) == count


def test_response_of_a_million_small_parts_is_received(broker: BrokerProcess, other: Wire) -> None:
    groups = tuple(f"g{number}" for number in range(REQUEST_ELEMENTS_MAX))
    with Wire(broker.bootstrap) as busy:
        assert len(busy.request(DescribeGroupsRequest(groups=groups)).groups) == len(groups)
    goes_on(other)


# State


def join(group_id: str, metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id="",
        protocol_type="hostile",
        protocols=(JoinGroupRequestProtocol(name="p", metadata=metadata),),
    )


def test_member_that_brings_megabytes_is_rejected_and_named(broker: BrokerProcess, other: Wire) -> None:
    before = broker.resident_bytes()
    for number in range(8):
        with Wire(broker.bootstrap) as hostile:
            answer = hostile.request(join(f"huge-{number}", bytes(20 * MEGABYTE)), version=3)
            assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert broker.resident_bytes() - before < 60 * MEGABYTE
    assert "huge-7 rejected" in broker.log
    goes_on(other)


@with_settings(groups_bytes_max=10 * MEGABYTE)
def test_members_of_all_groups_together_are_bounded_until_some_leave(
    broker: BrokerProcess, other: Wire
) -> None:
    codes = []
    members = []
    for number in range(15):
        answer = other.request(join(f"group-{number}", bytes(MEGABYTE)), version=3)
        codes.append(answer.error_code)
        members.append(answer.member_id)
    assert codes == [0] * 9 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 6
    other.request(LeaveGroupRequest(group_id="group-0", member_id=members[0]), version=2)
    assert other.request(join("late", bytes(MEGABYTE)), version=3).error_code == 0


def test_subscription_to_a_hundred_thousand_topics_is_rejected(broker: BrokerProcess, other: Wire) -> None:
    names = tuple(f"topic-{number}" for number in range(100_000))
    newer = ConsumerGroupHeartbeatRequest(
        group_id="newer",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        topic_partitions=(),
    )
    shared = ShareGroupHeartbeatRequest(
        group_id="shared", member_id="m", member_epoch=0, subscribed_topic_names=names
    )
    for request in (newer, shared):
        assert other.request(request).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    goes_on(other)
