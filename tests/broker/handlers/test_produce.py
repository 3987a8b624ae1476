"""Produce over the wire: what is stored, what is rejected, and with which error."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.records.batch import CRC_POSITION
from headrace.records.compression import Codec
from headrace.records.record import Record, encode_batch
from headrace.testing.wire import Wire, decode_response, encode_request, response_class
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import (
    NOW_MS,
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    delete_topic,
    end_offset,
    fetch,
    new_name,
    only_partition,
    produce,
    produce_request,
    read_all,
    values_of,
)

TOPIC_RESOURCE = 2


def test_records_get_consecutive_offsets_and_are_fetched_unchanged(wire: Wire, topic: str) -> None:
    assert produce(wire, topic, batch(b"a", b"b", b"c")).base_offset == 0
    assert produce(wire, topic, batch(b"d")).base_offset == 3
    assert values_of(fetch(wire, topic)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batch_is_stored_unchanged(wire: Wire, topic: str, codec: Codec) -> None:
    sent = batch(b"x" * 1000, b"y" * 1000, codec=codec)
    assert produce(wire, topic, sent).error_code == 0
    # Base offset and leader epoch are the broker's; everything from the format number on is the producer's.
    assert bytes(fetch(wire, topic).records or b"")[16:] == sent[16:]


def test_wrong_checksum_is_corrupt_message_and_nothing_is_stored(wire: Wire, topic: str) -> None:
    damaged = bytearray(batch(b"a", b"b"))
    damaged[CRC_POSITION] ^= 1
    assert produce(wire, topic, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE
    assert end_offset(wire, topic) == 0


@pytest.mark.parametrize("size_bytes", [1, 11, 12, 60])
def test_part_of_a_batch_is_corrupt_message(wire: Wire, topic: str, size_bytes: int) -> None:
    assert produce(wire, topic, batch(b"a")[:size_bytes]).error_code == ErrorCode.CORRUPT_MESSAGE


def test_several_batches_in_one_partition_are_rejected_whole(wire: Wire, topic: str) -> None:
    # The protocol allows one batch per partition from version 3 on.
    response = produce(wire, topic, batch(b"a") + batch(b"b"))
    assert response.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
    assert end_offset(wire, topic) == 0


@pytest.mark.parametrize("records", [b"", None])
def test_empty_records_are_an_error_and_not_an_acknowledgement(
    wire: Wire, topic: str, records: bytes | None
) -> None:
    assert produce(wire, topic, records).error_code == ErrorCode.INVALID_RECORD


def test_old_message_format_is_invalid_record(wire: Wire, topic: str) -> None:
    old = bytearray(batch(b"a"))
    old[16] = 1
    assert produce(wire, topic, bytes(old)).error_code == ErrorCode.INVALID_RECORD


def test_record_without_key_on_a_compacted_topic_is_invalid_record(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, cleanup_policy="compact")
    rejected = produce(wire, name, batch(b"a"))
    assert rejected.error_code == ErrorCode.INVALID_RECORD
    assert "key" in (rejected.error_message or "")
    assert produce(wire, name, batch(b"a", key=b"k")).base_offset == 0


def test_response_names_the_records_without_key_of_a_rejected_batch(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, cleanup_policy="compact")
    keys = [b"k", None, b"k", None]
    records = [Record(offset=n, timestamp_ms=NOW_MS, key=key, value=b"v") for n, key in enumerate(keys)]
    rejected = produce(wire, name, encode_batch(records))
    assert rejected.error_code == ErrorCode.INVALID_RECORD
    assert [wrong.batch_index for wrong in rejected.record_errors] == [1, 3]
    assert end_offset(wire, name) == 0


def test_oversized_batch_is_message_too_large_and_smaller_ones_are_accepted(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, max_message_bytes="1000")
    assert produce(wire, name, batch(b"x" * 2000)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    # What counts is the size on the wire.
    assert produce(wire, name, batch(b"x" * 2000, codec=Codec.ZSTD)).base_offset == 0


def test_decompression_bomb_on_a_compacted_topic_is_rejected_without_unpacking_it(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(durability="os", decompressed_batch_bytes_max=100_000))
    create_topic(wire, "compacted", cleanup_policy="compact")
    bomb = batch(b"\0" * 10_000_000, key=b"k", codec=Codec.ZSTD)
    assert len(bomb) < 10_000
    assert produce(wire, "compacted", bomb).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(wire, "compacted", batch(b"a", key=b"k", codec=Codec.ZSTD)).base_offset == 0


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_invalid_acks_are_rejected_and_nothing_is_stored(wire: Wire, topic: str, acks: int) -> None:
    assert produce(wire, topic, batch(b"a"), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert end_offset(wire, topic) == 0


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_produce_without_acknowledgement_is_stored_and_gets_no_response(
    start_broker: StartBroker, connect: Connect, durability: str
) -> None:
    wire = connect(start_broker(durability=durability))
    create_topic(wire, "t")
    wire.send(produce_request("t", batch(b"a"), acks=0), version=PRODUCE_BY_NAME, has_response=False)
    # A long poll, since nothing signals when the record is appended; checkpoints are a minute apart.
    assert values_of(fetch(wire, "t", max_wait_ms=20_000)) == [b"a"]


def test_failed_produce_without_acknowledgement_gets_no_response(wire: Wire, topic: str) -> None:
    wire.send(produce_request(topic, b"junk", acks=0), version=PRODUCE_BY_NAME, has_response=False)
    assert produce(wire, topic, batch(b"a")).base_offset == 0


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_requests_that_arrive_together_have_the_outcomes_of_their_own(
    start_broker: StartBroker, connect: Connect, durability: str
) -> None:
    wire = connect(start_broker(durability=durability))
    create_topic(wire, "t", partitions=2)
    produce(wire, "t", batch(b"first"))
    requests: list[Any] = [
        produce_request("t", batch(b"a", b"b")),
        produce_request("t", batch(b"c")),
        produce_request("t", b"junk"),
        produce_request("t", batch(b"d")),
        produce_request("t", batch(b"e", timestamp_ms=2**60)),
        produce_request("t", batch(b"other"), partition=1),
        produce_request("t", batch(b"unacknowledged"), acks=0),
        produce_request("t", batch(b"f")),
        produce_request("t", batch(b"g"), acks=3),
        produce_request("missing", batch(b"h")),
        MetadataRequest(topics=()),
        produce_request("t", batch(b"i")),
        produce_request("t", batch(b"j")),
    ]
    frames = [encode_request(each, PRODUCE_BY_NAME, number, "test") for number, each in enumerate(requests)]
    wire.send_bytes(b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames))
    outcomes = {}
    for number in (0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12):
        response = decode_response(
            wire.receive_frame(), response_class(type(requests[number])), PRODUCE_BY_NAME
        )
        if number != 10:
            one = only_partition(response)
            outcomes[number] = one.base_offset if one.error_code == 0 else ErrorCode(one.error_code)
    assert outcomes == {
        0: 1,
        1: 3,
        2: ErrorCode.CORRUPT_MESSAGE,
        3: 4,
        4: ErrorCode.INVALID_TIMESTAMP,
        5: 0,
        7: 6,
        8: ErrorCode.INVALID_REQUIRED_ACKS,
        9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        11: 7,
        12: 8,
    }
    values = [b"first", b"a", b"b", b"c", b"d", b"unacknowledged", b"f", b"i", b"j"]
    assert [record.value for record in read_all(wire, "t")] == values


def test_unknown_topic_partition_and_id_have_different_errors(wire: Wire, topic: str) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, new_name(), batch(b"a")).error_code == unknown
    assert produce(wire, topic, batch(b"a"), partition=1).error_code == unknown
    assert produce(wire, topic, batch(b"a"), partition=-1).error_code == unknown
    assert produce(wire, uuid.uuid4(), batch(b"a")).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_topic_can_be_written_to_by_id(wire: Wire) -> None:
    name = new_name()
    topic_id = create_topic(wire, name)
    assert produce(wire, topic_id, batch(b"a")).base_offset == 0
    assert values_of(fetch(wire, name)) == [b"a"]


def test_invalid_partition_does_not_fail_the_others_of_a_request(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, partitions=3)
    data = (
        PartitionProduceData(index=0, records=batch(b"zero")),
        PartitionProduceData(index=1, records=b"junk"),
        PartitionProduceData(index=2, records=batch(b"two")),
        PartitionProduceData(index=9, records=batch(b"nine")),
    )
    request = ProduceRequest(
        acks=-1, timeout_ms=1000, topic_data=(TopicProduceData(name=name, partition_data=data),)
    )
    (response,) = wire.request(request, version=PRODUCE_BY_NAME).responses
    assert [(one.index, one.error_code) for one in response.partition_responses] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.CORRUPT_MESSAGE),
        (2, ErrorCode.NONE),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [len(read_all(wire, name, partition=index)) for index in range(3)] == [1, 0, 1]


def test_larger_batches_are_accepted_as_soon_as_the_topic_allows_them(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, max_message_bytes="200")
    assert produce(wire, name, batch(b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    resource = AlterConfigsResource(
        resource_type=TOPIC_RESOURCE,
        resource_name=name,
        configs=(AlterableConfig(name="max.message.bytes", value="2000"),),
    )
    (altered,) = wire.request(AlterConfigsRequest(resources=(resource,))).responses
    assert altered.error_code == 0
    assert produce(wire, name, batch(b"x" * 500)).base_offset == 0


def test_rejected_batches_are_logged_with_the_client(
    headrace_broker: Broker, connect: Connect, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    produce(connect(headrace_broker, client_id="careless"), topic, b"junk")
    (line,) = [record for record in caplog.records if record.getMessage() == "produce rejected"]
    assert vars(line)["client_id"] == "careless"
    assert vars(line)["partition"] == f"{topic}-0"


def test_deleting_a_topic_leaves_no_produce_without_a_response(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="fsync")
    writer, admin = connect(broker), connect(broker)
    for _ in range(20):
        create_topic(admin, "t", partitions=3)
        for number in range(45):
            writer.send(produce_request("t", batch(b"x"), partition=number % 3), version=PRODUCE_BY_NAME)
        delete_topic(admin, "t")
        codes = {only_partition(writer.receive()).error_code for _ in range(45)}
        assert codes <= {0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR}
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
