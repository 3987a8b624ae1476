"""What the generated readers and writers promise: what was written is read, and bad bytes are rejected."""

from __future__ import annotations

import tracemalloc
import uuid
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.protocol.codec import ELEMENTS_MAX, REQUEST_ELEMENTS_MAX, STRING_BYTES_MAX, Codec, codec
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.protocol.messages.fetch import FetchRequest, FetchTopic
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.list_groups import ListGroupsRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.offset_fetch import OffsetFetchRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.schema import fields_at
from tests.protocol.marked_bytes import MarkedBytes, marked_bytes, varint
from tests.protocol.samples import (
    MESSAGES,
    every_message,
    full_sample,
    is_flexible,
    messages,
    random_samples,
    versions_of,
)

EXAMPLES_PER_VERSION = 10
MUTATIONS = 40

every_class = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


def marked(cls: type[Any], version: int) -> MarkedBytes:
    return marked_bytes(full_sample(cls, version), version, flexible=is_flexible(cls, version))


# What was written is read


@every_class
def test_written_bytes_are_read_back(cls: type[Any]) -> None:
    for version in versions_of(cls):
        _check_round_trips(codec(cls, version), messages(cls, version))


def _check_round_trips(made: Codec[Any], values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=EXAMPLES_PER_VERSION, suppress_health_check=list(HealthCheck), deadline=None)
    @given(values)
    def check(value: Any) -> None:
        assert made.decode(made.encode(value)) == value

    check()


@every_class
def test_every_version_is_read_back_and_encoded_as_a_plain_walk_of_the_schema_does(cls: type[Any]) -> None:
    for version in versions_of(cls):
        made = codec(cls, version)
        for value in (full_sample(cls, version), *random_samples(cls, version, 10)):
            data = made.encode(value)
            assert data == marked_bytes(value, version, flexible=made.flexible).data
            assert made.decode(data) == value


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_message_is_read_from_the_middle_of_any_buffer(kind: type[Any]) -> None:
    for cls, version in every_message():
        value = full_sample(cls, version)
        buffer = kind(b"\xff" * 13 + codec(cls, version).encode(value))
        assert codec(cls, version).decode(buffer, 13) == value


def test_field_that_a_version_does_not_have_gets_its_default() -> None:
    topics = (FetchTopic(topic="t", topic_id=uuid.uuid4(), partitions=()),)
    request = FetchRequest(topics=topics, rack_id="r", session_id=5)
    old = codec(FetchRequest, 4)
    assert old.decode(old.encode(request)) == FetchRequest(topics=(FetchTopic(topic="t", partitions=()),))


def test_decoded_message_is_frozen_and_of_its_class() -> None:
    for cls, version in every_message():
        value = codec(cls, version).decode(codec(cls, version).encode(full_sample(cls, version)))
        assert type(value) is cls
        for name in cls.__struct_fields__:
            with pytest.raises(AttributeError):
                setattr(value, name, None)


def test_record_batches_are_not_copied_when_read() -> None:
    partition = PartitionProduceData(index=0, records=b"batch")
    topics = (TopicProduceData(name="t", partition_data=(partition,)),)
    data = codec(ProduceRequest, 9).encode(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics))
    read = codec(ProduceRequest, 9).decode(data).topic_data[0].partition_data[0].records
    assert isinstance(read, memoryview)
    assert read.obj is data


def test_record_batches_are_not_copied_when_written() -> None:
    records = bytearray(b"batch")
    partition = PartitionProduceData(index=0, records=records)
    topics = (TopicProduceData(name="t", partition_data=(partition,)),)
    parts: list[bytes | bytearray | memoryview] = []
    codec(ProduceRequest, 9).write(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics), parts)
    assert any(part is records for part in parts)


def test_unknown_tags_are_skipped() -> None:
    plain = codec(HeartbeatRequest, 4).encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    assert plain[-1:] == b"\0"
    with_tags = plain[:-1] + b"\x02" + b"\x05\x03abc" + varint(300) + b"\x00"
    assert codec(HeartbeatRequest, 4).decode(with_tags) == codec(HeartbeatRequest, 4).decode(plain)


# Bad bytes


@every_class
def test_a_message_cut_at_any_byte_is_malformed(cls: type[Any]) -> None:
    for version in versions_of(cls):
        made = codec(cls, version)
        data = made.encode(full_sample(cls, version))
        for size in range(len(data)):
            with pytest.raises(MalformedMessage):
                made.decode(data[:size])


@every_class
def test_bytes_after_the_message_are_rejected(cls: type[Any]) -> None:
    for version in versions_of(cls):
        data = codec(cls, version).encode(full_sample(cls, version))
        with pytest.raises(MalformedMessage, match="follow the message"):
            codec(cls, version).decode(data + b"\0")


@every_class
def test_changed_bytes_are_malformed_or_another_message(cls: type[Any]) -> None:
    random = Random(cls.__name__)
    for version in versions_of(cls):
        made = codec(cls, version)
        original = made.encode(full_sample(cls, version))
        for _ in range(MUTATIONS if original else 0):
            data = bytearray(original)
            for _ in range(random.choice([1, 1, 2, 5])):
                data[random.randrange(len(data))] = random.choice(
                    [0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)]
                )
            try:
                value = made.decode(data)
            except MalformedMessage:
                continue
            assert made.decode(made.encode(value)) == value


@every_class
def test_a_count_that_promises_gigabytes_is_rejected_before_anything_is_allocated(cls: type[Any]) -> None:
    for version in versions_of(cls):
        made, message = codec(cls, version), marked(cls, version)
        for mark in message.marks:
            if mark.is_string and not made.flexible:
                continue  # sixteen bits promise no gigabytes
            data = message.with_length(mark, 2**31 - 1)
            tracemalloc.start()
            try:
                with pytest.raises(MalformedMessage):
                    made.decode(data)
                allocated_bytes = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert allocated_bytes < 100_000, f"{mark.label} in version {version}"


@every_class
def test_null_is_rejected_where_it_is_not_allowed(cls: type[Any]) -> None:
    for version in versions_of(cls):
        made, message = codec(cls, version), marked(cls, version)
        for mark in message.marks:
            data = message.with_length(mark, -1)
            if mark.encoding.nullable:
                continue
            with pytest.raises(MalformedMessage, match=f"{mark.label} is null"):
                made.decode(data)


@every_class
def test_null_is_not_written_where_it_is_not_allowed(cls: type[Any]) -> None:
    for version in versions_of(cls):
        value = full_sample(cls, version)
        for field in fields_at(cls, version):
            if field.encoding.nullable or field.encoding.fixed_bytes or field.encoding.struct or field.tag:
                continue
            with pytest.raises(MalformedMessage, match=f"{field.name} is null"):
                codec(cls, version).encode(msgspec.structs.replace(value, **{field.name: None}))


@every_class
def test_a_string_that_is_not_utf8_is_rejected(cls: type[Any]) -> None:
    for version in versions_of(cls):
        made, message = codec(cls, version), marked(cls, version)
        for mark in message.marks:
            if mark.is_string and mark.length > 0:
                data = bytearray(message.data)
                data[mark.position + mark.prefix_bytes] = 0xFF
                with pytest.raises(MalformedMessage, match="UTF-8"):
                    made.decode(data)


def test_a_varint_of_more_than_32_bits_is_rejected() -> None:
    for prefix in (b"\xff\xff\xff\xff\xff\x01", b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\x00"):
        with pytest.raises(MalformedMessage, match="32 bits"):
            codec(ListGroupsRequest, 4).decode(prefix + b"\0" * 20)


def test_a_compact_string_longer_than_a_plain_one_can_be_is_rejected() -> None:
    def request(size: int) -> bytes:
        return varint(size + 1) + b"a" * size + b"\x02" + b"1" + b"\0"

    longest = codec(ApiVersionsRequest, 3).decode(request(STRING_BYTES_MAX))
    assert len(longest.client_software_name) == STRING_BYTES_MAX
    with pytest.raises(MalformedMessage, match="more than a string may have"):
        codec(ApiVersionsRequest, 3).decode(request(STRING_BYTES_MAX + 1))


def test_all_arrays_of_a_message_together_are_bounded() -> None:
    def request(states: int, types: int) -> bytes:
        return varint(states + 1) + b"\x01" * states + varint(types + 1) + b"\x01" * types + b"\0"

    half = ELEMENTS_MAX // 2
    assert len(codec(ListGroupsRequest, 5).decode(request(half, half)).types_filter) == half
    for too_many in (request(ELEMENTS_MAX + 1, 0), request(half, half + 1)):
        with pytest.raises(MalformedMessage, match="more than the message can hold"):
            codec(ListGroupsRequest, 5).decode(too_many)


def test_arrays_inside_array_elements_count_towards_the_bound() -> None:
    partitions = 1000
    topic = b"\0\x01t" + partitions.to_bytes(4, "big") + b"\0\0\0\0" * partitions

    def request(topics: int) -> bytes:
        return b"\0\x01g" + topics.to_bytes(4, "big") + topic * topics

    fitting = ELEMENTS_MAX // (partitions + 1)
    assert len(codec(OffsetFetchRequest, 1).decode(request(fitting)).topics or ()) == fitting
    with pytest.raises(MalformedMessage, match="more than the message can hold"):
        codec(OffsetFetchRequest, 1).decode(request(fitting + 2))


@pytest.mark.parametrize("size", [0, 1, 3, 200])
def test_a_tagged_field_must_fill_its_size(size: int) -> None:
    response = codec(ApiVersionsResponse, 3).encode(
        ApiVersionsResponse(api_keys=(), finalized_features_epoch=7)
    )
    epoch = b"\x01\x08" + (7).to_bytes(8, "big")
    assert response.endswith(epoch)
    with pytest.raises(MalformedMessage):
        codec(ApiVersionsResponse, 3).decode(response[: -len(epoch)] + b"\x01" + varint(size) + epoch[2:])


def test_a_nullable_struct_is_null_when_its_marker_is_negative() -> None:
    request = codec(DescribeTopicPartitionsRequest, 0)
    null = request.encode(DescribeTopicPartitionsRequest(topics=()))
    assert null[-2:] == b"\xff\0"
    assert request.decode(null).cursor is None


def test_null_topics_mean_all_only_from_version_1_on() -> None:
    assert codec(MetadataRequest, 1).decode(b"\xff\xff\xff\xff").topics is None
    with pytest.raises(MalformedMessage, match="topics is null"):
        codec(MetadataRequest, 0).decode(b"\xff\xff\xff\xff")


def test_bytes_that_are_looked_past_do_not_count_as_kept() -> None:
    """Unknown tags of the message and of its structs, and bytes after the message."""
    heartbeat = codec(HeartbeatRequest, 4)
    plain = heartbeat.encode(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"))
    assert heartbeat.decode_request(b"head" + plain + b"rest", 4)[1] == len(plain)
    tagged = plain[:-1] + b"\1\x7f" + varint(5_000) + b"\0" * 5_000
    value, kept_bytes = heartbeat.decode_request(tagged, 0)
    assert value == heartbeat.decode(plain)
    assert kept_bytes == len(tagged) - 5_000


def test_request_has_fewer_elements_than_what_is_stored_or_answered() -> None:
    names = tuple(str(number) for number in range(REQUEST_ELEMENTS_MAX + 1))
    listing = codec(ListGroupsRequest, 4)
    most, too_many = (listing.encode(ListGroupsRequest(states_filter=one)) for one in (names[1:], names))
    assert len(listing.decode_request(most, 0)[0].states_filter) == REQUEST_ELEMENTS_MAX
    with pytest.raises(MalformedMessage, match="announces"):
        listing.decode_request(too_many, 0)
    assert len(listing.decode(too_many).states_filter) == REQUEST_ELEMENTS_MAX + 1
