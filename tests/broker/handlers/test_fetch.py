"""Fetch over the wire: what is read, how long it waits, and how large a response is."""

from __future__ import annotations

import threading
import time
import uuid

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from headrace.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually, metrics
from tests.broker.requests import (
    FETCH_BY_NAME,
    batch,
    create_topic,
    delete_topic,
    fetch,
    fetch_request,
    new_name,
    new_producer_id,
    only_partition,
    produce,
    records_of,
    values_of,
)

# Longer than any test may take: a fetch with this wait that gets a response was woken.
FOR_EVER_MS = 2**31 - 1


def delete_records_before(wire: Wire, topic: str, offset: int) -> int:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=(DeleteRecordsPartition(partition_index=0, offset=offset),)
    )
    (response,) = wire.request(DeleteRecordsRequest(topics=(wanted,))).topics[0].partitions
    assert response.error_code == 0
    low_watermark: int = response.low_watermark
    return low_watermark


# What is read


def test_fetch_from_the_middle_of_a_batch_returns_the_whole_batch(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a", b"b", b"c"))
    produce(wire, topic, batch(b"d"))
    assert [record.offset for record in records_of(fetch(wire, topic, 1))] == [0, 1, 2, 3]
    assert [record.offset for record in records_of(fetch(wire, topic, 3))] == [3]


def test_fetch_at_the_end_is_empty_and_beyond_it_out_of_range(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    at_end = fetch(wire, topic, 1)
    assert (at_end.error_code, at_end.high_watermark, at_end.records) == (0, 1, b"")
    for offset in (2, -1, 2**62):
        assert fetch(wire, topic, offset).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_one_batch_is_returned_however_small_the_limits(wire: Wire, topic: str) -> None:
    for value in (b"a" * 1000, b"b"):
        produce(wire, topic, batch(value))
    assert values_of(fetch(wire, topic, partition_max_bytes=1)) == [b"a" * 1000]
    assert values_of(fetch(wire, topic, max_bytes=0, partition_max_bytes=0)) == [b"a" * 1000]
    assert values_of(fetch(wire, topic, max_bytes=-1)) == [b"a" * 1000]


def test_limits_end_a_response_between_batches(wire: Wire, topic: str) -> None:
    one = batch(b"a" * 1000)
    for _ in range(5):
        produce(wire, topic, one)
    assert len(fetch(wire, topic, partition_max_bytes=2 * len(one)).records or b"") == 2 * len(one)
    assert len(fetch(wire, topic, max_bytes=3 * len(one) + 1).records or b"") == 3 * len(one)


def test_response_limit_spans_partitions_and_only_the_first_exceeds_it(wire: Wire) -> None:
    name = new_name()
    create_topic(wire, name, partitions=3)
    one = batch(b"a" * 1000)
    for index in range(3):
        produce(wire, name, one, partition=index)
    wanted = tuple(FetchPartition(partition=index, fetch_offset=0) for index in range(3))
    topics = (FetchTopic(topic=name, partitions=wanted),)
    (response,) = wire.request(FetchRequest(max_bytes=100, topics=topics), version=FETCH_BY_NAME).responses
    assert [len(part.records) for part in response.partitions] == [len(one), 0, 0]
    (response,) = wire.request(
        FetchRequest(max_bytes=2 * len(one), topics=topics), version=FETCH_BY_NAME
    ).responses
    assert [len(part.records) for part in response.partitions] == [len(one), len(one), 0]


def test_broker_bounds_a_response_whatever_the_client_requests(
    start_broker: StartBroker, connect: Connect
) -> None:
    wire = connect(start_broker(durability="os", fetch_bytes_max=10_000))
    create_topic(wire, "t")
    for _ in range(10):
        produce(wire, "t", batch(b"a" * 3000))
    assert 0 < len(fetch(wire, "t", partition_max_bytes=2**31 - 1).records or b"") <= 10_000


def test_unknown_topic_partition_and_id_have_different_errors(wire: Wire, topic: str) -> None:
    assert fetch(wire, new_name()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, topic, partition=7).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetch(wire, uuid.uuid4()).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_wrong_leader_epoch_is_fenced(wire: Wire, topic: str) -> None:
    def with_epoch(epoch: int) -> int:
        wanted = FetchPartition(partition=0, fetch_offset=0, current_leader_epoch=epoch)
        request = FetchRequest(max_wait_ms=0, topics=(FetchTopic(topic=topic, partitions=(wanted,)),))
        code: int = only_partition(wire.request(request, version=FETCH_BY_NAME)).error_code
        return code

    assert with_epoch(-1) == ErrorCode.NONE
    assert with_epoch(0) == ErrorCode.NONE
    assert with_epoch(1) == ErrorCode.UNKNOWN_LEADER_EPOCH


# Waiting


def test_waiting_fetch_is_completed_by_a_produce(
    headrace_broker: Broker, connect: Connect, topic: str
) -> None:
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    reader.send(fetch_request(topic, max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    assert not reader.has_response(within_s=0.1)
    produce(writer, topic, batch(b"a"))
    assert values_of(only_partition(reader.receive())) == [b"a"]


def test_broker_with_fsync_wakes_a_waiting_fetch_only_with_durable_records(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="fsync")
    reader, writer = connect(broker), connect(broker)
    create_topic(writer, "t")
    for offset in range(20):
        reader.send(fetch_request("t", offset, max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
        assert produce(writer, "t", batch(b"%d" % offset)).base_offset == offset
        response = only_partition(reader.receive())
        assert (values_of(response), response.high_watermark) == ([b"%d" % offset], offset + 1)


def test_waiting_fetch_waits_for_min_bytes(headrace_broker: Broker, connect: Connect, topic: str) -> None:
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    one = batch(b"a" * 100)
    request = fetch_request(topic, max_wait_ms=FOR_EVER_MS, min_bytes=3 * len(one))
    reader.send(request, version=FETCH_BY_NAME)
    for _ in range(2):
        produce(writer, topic, one)
    assert not reader.has_response(within_s=0.2)
    produce(writer, topic, one)
    assert len(values_of(only_partition(reader.receive()))) == 3


def test_waiting_fetch_counts_records_from_before_the_wait(
    headrace_broker: Broker, connect: Connect, topic: str
) -> None:
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    one = batch(b"a" * 100)
    produce(writer, topic, one)
    request = fetch_request(topic, max_wait_ms=FOR_EVER_MS, min_bytes=2 * len(one))
    reader.send(request, version=FETCH_BY_NAME)
    assert not reader.has_response(within_s=0.1)
    produce(writer, topic, one)
    assert len(values_of(only_partition(reader.receive()))) == 2


def test_repeated_batch_of_an_idempotent_producer_wakes_no_fetch(
    headrace_broker: Broker, connect: Connect, topic: str
) -> None:
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    once = batch(b"a", producer_id=new_producer_id(writer), producer_epoch=0, base_sequence=0)
    produce(writer, topic, once)
    reader.send(fetch_request(topic, 1, max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    assert not reader.has_response(within_s=0.1)
    produce(writer, topic, once)
    assert not reader.has_response(within_s=0.2)


def test_fetch_without_data_gets_its_response_exactly_after_max_wait(wire: Wire, topic: str) -> None:
    began_s = time.monotonic()
    response = fetch(wire, topic, max_wait_ms=300)
    assert time.monotonic() - began_s >= 0.29
    assert (response.error_code, response.records) == (0, b"")


def test_too_few_bytes_are_sent_when_max_wait_is_over(wire: Wire, topic: str) -> None:
    produce(wire, topic, batch(b"a"))
    assert values_of(fetch(wire, topic, max_wait_ms=100, min_bytes=10_000)) == [b"a"]


@pytest.mark.parametrize("max_wait_ms", [0, -1, -(2**31)])
def test_fetch_without_time_to_wait_gets_a_response_immediately(
    wire: Wire, topic: str, max_wait_ms: int
) -> None:
    assert fetch(wire, topic, max_wait_ms=max_wait_ms, min_bytes=2**31 - 1).error_code == 0


def test_error_in_one_partition_is_returned_immediately(wire: Wire, topic: str) -> None:
    assert fetch(wire, topic, 5, max_wait_ms=FOR_EVER_MS).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("by_id", [False, True])
def test_deleting_a_topic_ends_the_fetches_that_wait_for_it(
    headrace_broker: Broker, connect: Connect, by_id: bool
) -> None:
    reader, admin = connect(headrace_broker), connect(headrace_broker)
    name = new_name()
    topic_id = create_topic(admin, name)
    request = fetch_request(topic_id if by_id else name, max_wait_ms=FOR_EVER_MS)
    reader.send(request, version=18 if by_id else FETCH_BY_NAME)
    assert not reader.has_response(within_s=0.1)
    delete_topic(admin, name)
    expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert only_partition(reader.receive()).error_code == expected


def test_fetch_of_a_disconnected_client_stops_waiting(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", metrics_port=0)
    admin = connect(broker)
    create_topic(admin, "t")
    for _ in range(20):
        with Wire(broker.bootstrap) as reader:
            reader.send(fetch_request("t", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
            assert not reader.has_response(within_s=0.01)
    eventually(
        lambda: metrics(broker)["headrace_waiting_fetches"] == 0, "no fetch waits for a client that left"
    )


def test_no_append_is_missed_between_reading_and_waiting(
    headrace_broker: Broker, connect: Connect, topic: str
) -> None:
    """A writer and a reader race for many rounds; a missed wake-up would leave the reader waiting for ever."""
    reader, writer = connect(headrace_broker), connect(headrace_broker)
    rounds = 300

    def write() -> None:
        for number in range(rounds):
            produce(writer, topic, batch(b"%d" % number))

    thread = threading.Thread(target=write)
    thread.start()
    offset = 0
    while offset < rounds:
        found = records_of(fetch(reader, topic, offset, max_wait_ms=FOR_EVER_MS))
        assert found[0].offset == offset
        offset = found[-1].offset + 1
    thread.join()


# Behind retention


def test_missed_records_of_a_consumer_behind_retention_are_counted_and_logged(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="os", metrics_port=0)
    wire = connect(broker, client_id="late")
    create_topic(wire, "t")
    for number in range(10):
        produce(wire, "t", batch(b"%d" % number))
    assert delete_records_before(wire, "t", 7) == 7
    response = fetch(wire, "t", 3)
    assert (response.error_code, response.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 7)
    assert metrics(broker)["headrace_missed_records_total"] == 4
    (line,) = [one for one in caplog.records if one.getMessage() == "a consumer fell behind retention"]
    assert (vars(line)["missed_records"], vars(line)["client_id"]) == (4, "late")
    assert values_of(fetch(wire, "t", 7)) == [b"7", b"8", b"9"]


def test_consumer_ahead_of_the_log_missed_nothing(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    assert fetch(wire, "t", 100).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert metrics(broker)["headrace_missed_records_total"] == 0
