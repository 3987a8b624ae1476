"""Every bound of the settings, from outside: a client above it is rejected or waits, and others continue."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.broker.configs.client_quotas import CLIENT_ID
from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.protocol.messages.fetch import FetchRequest
from headrace.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.protocol.primitives import uvarint
from headrace.testing.wire import Disconnected, Wire, encode_request
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually, metrics
from tests.broker.quota_requests import alter as alter_quota
from tests.broker.requests import (
    FETCH_BY_NAME,
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    fetch,
    fetch_request,
    only_partition,
    produce,
    produce_request,
    values_of,
)
from tests.faults.broker_process import BrokerProcess

FOR_EVER_MS = 2**31 - 1
MEGABYTE = 1024 * 1024


def padded(request: object, version: int, size_bytes: int) -> bytes:
    """A frame of a given size: bytes after a whole message are skipped."""
    return encode_request(request, version, 1, "padded").ljust(size_bytes, b"\0")


def large_poll(topic: str, size_bytes: int) -> FetchRequest:
    """A fetch that waits for ever and is as large as its rack's name."""
    return replace(fetch_request(topic, max_wait_ms=FOR_EVER_MS), rack_id="r" * size_bytes)


# Connections


def test_connection_above_the_bound_is_rejected_until_another_closes(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", connections_max=3)
    first, *others = [connect(broker) for _ in range(3)]
    for wire in (first, *others):
        assert wire.request(ApiVersionsRequest()).error_code == 0
    assert connect(broker).is_closed_by_broker()
    assert others[0].request(ApiVersionsRequest()).error_code == 0
    first.close()

    def is_let_in() -> bool:
        try:
            return bool(connect(broker).request(ApiVersionsRequest()).error_code == 0)
        except Disconnected:
            return False

    eventually(is_let_in, "the place of the connection that was closed is free again")


def test_idle_connection_is_closed_and_a_busy_one_is_not(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", idle_connection_ms_max=1000)
    idle, busy = connect(broker), connect(broker)
    idle.request(ApiVersionsRequest())
    closed: list[bool] = []
    watch = threading.Thread(target=lambda: closed.append(idle.is_closed_by_broker()))
    watch.start()
    while watch.is_alive():
        busy.request(ApiVersionsRequest())
        time.sleep(0.05)
    assert closed == [True]
    assert busy.request(ApiVersionsRequest()).error_code == 0


# Requests


def test_request_above_the_bound_closes_its_connection_before_its_bytes_are_sent(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", request_bytes_max=5_000, metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    assert produce(wire, "t", batch(b"x" * 4_000)).error_code == 0
    wire.send_bytes((5_001).to_bytes(4, "big"))
    assert wire.is_closed_by_broker()
    assert metrics(broker)["headrace_connections_refused_total"] == 1


def stalls(wire: Wire, frame: bytes, limit_bytes: int) -> int:
    """Send frames without ever reading until the socket takes no more; the bytes it took."""
    data = len(frame).to_bytes(4, "big") + frame
    sent = 0
    wire.socket.settimeout(1.0)
    while sent < limit_bytes:
        try:
            sent += wire.socket.send(data)
        except TimeoutError:
            return sent
    pytest.fail(f"the broker took {sent} bytes from a client that reads no responses")


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", durability="os", metrics_port=0) as running:
        yield running
        assert "Traceback" not in running.log


def test_sender_that_reads_no_responses_is_paused_and_others_continue(process: BrokerProcess) -> None:
    with Wire(process.bootstrap) as other, Wire(process.bootstrap, receive_buffer_bytes=4096) as deaf:
        for number in range(50):
            create_topic(other, f"topic-{number}")
        before = process.resident_bytes()
        # Small requests with responses of some kilobytes: the unsent responses would grow.
        stalls(deaf, encode_request(MetadataRequest(topics=None), 1, 1, "deaf"), 200 * MEGABYTE)
        assert process.resident_bytes() - before < 30 * MEGABYTE
        for number in range(20):
            assert produce(other, "topic-0", batch(b"x")).base_offset == number


def test_reader_that_receives_nothing_takes_one_response_of_memory(process: BrokerProcess) -> None:
    with Wire(process.bootstrap) as other:
        create_topic(other, "t")
        for _ in range(20):
            produce(other, "t", batch(b"x" * 1_000_000))
        before = process.resident_bytes()
        with ExitStack() as stack:
            for _ in range(5):
                deaf = stack.enter_context(Wire(process.bootstrap, receive_buffer_bytes=4096))
                for _ in range(10):
                    deaf.send(fetch_request("t", partition_max_bytes=10 * MEGABYTE), version=FETCH_BY_NAME)
            for number in range(20, 30):
                assert produce(other, "t", batch(b"y")).base_offset == number
            # Ten responses of 10 MB were requested on each; one of each waits, and no more is read from them.
            assert process.resident_bytes() - before < 120 * MEGABYTE


def with_large_batches(wire: Wire, count: int) -> None:
    """A topic whose batches of 8 MB do not fit into the kernel's buffers of a connection."""
    create_topic(wire, "large", max_message_bytes=str(10 * MEGABYTE))
    for _ in range(count):
        assert produce(wire, "large", batch(b"x" * (8 * MEGABYTE))).error_code == 0


def all_of_it() -> FetchRequest:
    return fetch_request("large", partition_max_bytes=50 * MEGABYTE)


def test_readers_that_receive_nothing_delay_no_other(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", inflight_bytes_max=20 * MEGABYTE, metrics_port=0)
    other = connect(broker)
    with_large_batches(other, 3)
    create_topic(other, "t")
    deaf = [connect(broker, receive_buffer_bytes=4096) for _ in range(3)]
    for wire in deaf:
        wire.send(all_of_it(), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_connections_held"] == len(deaf), "their responses wait")
    # The first is given as much as there is room for, and one batch is read when there is none.
    assert 20 * MEGABYTE < metrics(broker)["headrace_inflight_bytes"] < 40 * MEGABYTE
    for number in range(5):
        assert produce(other, "t", batch(b"y")).base_offset == number
    assert metrics(broker)["headrace_connections"] == 1 + len(deaf)


def test_reader_that_receives_nothing_is_closed_and_logged(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="os", stuck_connection_ms_max=500, metrics_port=0)
    with_large_batches(connect(broker), 1)
    deaf = connect(broker, receive_buffer_bytes=4096, client_id="deaf")
    deaf.send(all_of_it(), version=FETCH_BY_NAME)
    eventually(lambda: "does not receive its responses" in caplog.text, "it is closed")
    (logged,) = [one for one in caplog.records if "does not receive its responses" in one.getMessage()]
    assert logged.__dict__["client_id"] == "deaf"
    assert logged.__dict__["client"] == "{}:{}".format(*deaf.socket.getsockname())
    assert logged.__dict__["unsent_bytes"] > MEGABYTE
    eventually(lambda: metrics(broker)["headrace_inflight_bytes"] == 0, "what it held is free")


def test_connection_with_most_unsent_bytes_is_closed_when_the_shares_are_used(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="os", inflight_bytes_max=9 * MEGABYTE)
    other = connect(broker)
    with_large_batches(other, 1)
    for _ in range(6):  # a batch each, also without room
        connect(broker, receive_buffer_bytes=4096).send(all_of_it(), version=FETCH_BY_NAME)
    eventually(lambda: "does not receive its responses" in caplog.text, "one is closed")
    create_topic(other, "t")
    assert produce(other, "t", batch(b"y")).error_code == 0


def test_idle_connection_that_receives_nothing_is_closed_too(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", idle_connection_ms_max=1_000, metrics_port=0)
    other, deaf = connect(broker), connect(broker, receive_buffer_bytes=4096)
    create_topic(other, "t")
    for _ in range(10):
        produce(other, "t", batch(b"x" * 1_000_000))
    deaf.send(fetch_request("t", partition_max_bytes=20 * MEGABYTE), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_connections"] == 0, "both are closed")
    assert metrics(broker)["headrace_inflight_bytes"] == 0


def test_sender_of_unfinished_requests_is_bounded_in_memory(tmp_path: Path) -> None:
    """Many connections that each send most of a large request and then wait."""
    limit = 40 * MEGABYTE
    broker = BrokerProcess(tmp_path / "data", durability="os", inflight_bytes_max=limit)
    with broker, Wire(broker.bootstrap) as other, ExitStack() as stack:
        create_topic(other, "t")
        before = broker.resident_bytes()
        part = (100 * MEGABYTE).to_bytes(4, "big") + b"\0" * (10 * MEGABYTE)
        for _ in range(12):
            wire = stack.enter_context(Wire(broker.bootstrap))
            try:
                wire.send_bytes(part)
            except Disconnected:
                continue
        assert broker.resident_bytes() - before < 2 * limit + 30 * MEGABYTE
        assert produce(other, "t", batch(b"x")).error_code == 0


def test_paused_connection_with_the_most_unread_bytes_is_closed(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(
        durability="os", inflight_bytes_max=200_000, client_quota_window_ms=1, metrics_port=0
    )
    other, paused = connect(broker), connect(broker, client_id="slow")
    create_topic(other, "t")
    assert alter_quota(other, {CLIENT_ID: "slow"}, consumer_byte_rate=1) == 0
    paused.send(fetch_request("t", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    paused.send_bytes((190_000).to_bytes(4, "big") + b"\0" * 180_000)
    eventually(lambda: metrics(broker)["headrace_unread_bytes"] > 180_000, "most of it has come")
    assert produce(other, "t", batch(b"x" * 1000)).error_code == 0
    eventually(lambda: metrics(broker)["headrace_connections_held"] == 1, "its quota holds it up")
    frame = padded(produce_request("t", batch(b"y")), PRODUCE_BY_NAME, 60_000)
    other.send_bytes(len(frame).to_bytes(4, "big") + frame[:40_000])
    assert paused.is_closed_by_broker()
    other.send_bytes(frame[40_000:])
    assert other.receive_frame()


def test_requests_of_one_connection_that_wait_are_bounded(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", connection_requests_max=5, metrics_port=0)
    wire, other = connect(broker), connect(broker)
    create_topic(other, "t")
    for _ in range(20):
        wire.send(fetch_request("t", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_connections_held"] == 1, "reading from it stops")
    assert metrics(broker)["headrace_waiting_fetches"] == 5
    produce(other, "t", batch(b"now"))
    for _ in range(20):
        assert values_of(only_partition(wire.receive())) == [b"now"]
    eventually(lambda: metrics(broker)["headrace_connections_held"] == 0, "reading continues")


def test_bytes_of_one_connection_that_wait_are_bounded(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", connection_bytes_max=50_000, metrics_port=0)
    wire, other = connect(broker), connect(broker)
    create_topic(other, "t")
    for _ in range(10):
        wire.send(large_poll("t", 20_000), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_connections_held"] == 1, "reading from it stops")
    assert metrics(broker)["headrace_waiting_fetches"] == 3
    produce(other, "t", batch(b"now"))
    for _ in range(10):
        wire.receive_frame()


def test_skipped_bytes_do_not_count_while_a_request_waits(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", connection_bytes_max=50_000, metrics_port=0)
    wire, other = connect(broker), connect(broker)
    create_topic(other, "t")
    poll = encode_request(fetch_request("t", max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME, 1, "wire")
    unknown_tag = b"\1\x7f" + uvarint(20_000) + b"\0" * 20_000
    for number in range(10):
        wire.send_frame(poll[:-1] + unknown_tag if number % 2 else poll + b"\0" * 20_000)
    eventually(lambda: metrics(broker)["headrace_waiting_fetches"] == 10, "all of them wait")
    assert metrics(broker)["headrace_inflight_bytes"] < 2_000
    assert metrics(broker)["headrace_connections_held"] == 0


def test_waiting_fetches_get_responses_when_memory_is_full(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="os", inflight_bytes_max=50_000, metrics_port=0)
    admin = connect(broker)
    create_topic(admin, "t")
    small = connect(broker)
    small.send(fetch_request("t", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    large = [connect(broker, client_id=f"large-{number}") for number in range(3)]
    for client in large:
        client.send(large_poll("t", 20_000), version=FETCH_BY_NAME)
    for client in large:
        assert only_partition(client.receive()).records == b""
    assert metrics(broker)["headrace_waiting_fetches"] == 1, "a poll below its share continues to wait"
    assert "holds more than its share" in caplog.text
    assert produce(admin, "t", batch(b"x")).error_code == 0
    assert values_of(only_partition(small.receive())) == [b"x"]
    eventually(lambda: metrics(broker)["headrace_inflight_bytes"] == 0, "all of it is given back")


def test_disconnect_frees_the_bytes_of_a_connection(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", metrics_port=0)
    create_topic(connect(broker), "t")
    for _ in range(10):
        with Wire(broker.bootstrap) as wire:
            wire.send_frame(padded(fetch_request("t", max_wait_ms=FOR_EVER_MS), FETCH_BY_NAME, 10_000))
            wire.send_bytes((9_000).to_bytes(4, "big") + b"unfinished")

    def nothing_is_left() -> bool:
        # Of both at once: a connection that was closed before it was accepted is accepted later.
        now = metrics(broker)
        return now["headrace_connections"] == 1 and now["headrace_inflight_bytes"] == 0

    eventually(nothing_is_left, "they are closed, and their bytes are freed")


# Waiting fetches, partitions


def test_fetch_above_the_bound_of_waiting_ones_gets_its_response_immediately(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", waiting_fetches_max=2, metrics_port=0)
    admin = connect(broker)
    create_topic(admin, "t")
    for _ in range(2):
        connect(broker).send(fetch_request("t", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_waiting_fetches"] == 2, "two wait")
    assert fetch(admin, "t", max_wait_ms=FOR_EVER_MS).records == b""


def test_partitions_above_the_bound_are_rejected_by_every_api(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="os", partitions_max=3)
    wire = connect(broker)
    create_topic(wire, "t", partitions=2)
    (two_more,) = wire.request(
        CreateTopicsRequest(topics=(CreatableTopic(name="u", num_partitions=2),))
    ).topics
    assert two_more.error_code == ErrorCode.POLICY_VIOLATION
    grow = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="t", count=4),))
    assert [one.error_code for one in wire.request(grow).results] == [ErrorCode.POLICY_VIOLATION]
    by_itself = [
        wire.request(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), version=9)
        .topics[0]
        .error_code
        for name in ("auto-1", "auto-2")
    ]
    assert by_itself == [0, ErrorCode.POLICY_VIOLATION]


def test_slow_reader_receives_everything_once_it_reads(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(durability="os", metrics_port=0)
    writer, reader = connect(broker), connect(broker, receive_buffer_bytes=4096)
    create_topic(writer, "t")
    for number in range(8):
        produce(writer, "t", batch(b"%d" % number * 900_000))
    for _ in range(6):
        reader.send(fetch_request("t", partition_max_bytes=10 * MEGABYTE), version=FETCH_BY_NAME)
    eventually(lambda: metrics(broker)["headrace_connections_held"] == 1, "it is held")
    for _ in range(6):
        assert len(values_of(only_partition(reader.receive()))) == 8
    eventually(lambda: metrics(broker)["headrace_inflight_bytes"] == 0, "nothing is under way any more")


def test_half_closed_connection_is_closed(headrace_broker: Broker, connect: Connect) -> None:
    wire = connect(headrace_broker)
    wire.request(ApiVersionsRequest())
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.is_closed_by_broker()


def test_produce_without_acks_of_a_client_that_does_not_read_is_stored(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = start_broker(durability="fsync")
    deaf, other = connect(broker), connect(broker)
    create_topic(other, "t")
    for number in range(30):
        deaf.send(produce_request("t", batch(b"%d" % number)), version=PRODUCE_BY_NAME)
    deaf.socket.shutdown(socket.SHUT_RD)
    assert values_of(fetch(other, "t", max_wait_ms=20_000, min_bytes=30 * len(batch(b"1")))) == [
        b"%d" % number for number in range(30)
    ]
