"""Responses on one connection are in order, and a slow request delays no other connection."""

from __future__ import annotations

import random
import threading

import pytest
from msgspec.structs import replace

from headrace.broker.dispatch import HANDLERS
from headrace.broker.embedded import Broker
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.describe_cluster import DescribeClusterRequest
from headrace.protocol.messages.describe_producers import DescribeProducersRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.testing.wire import Disconnected, Wire, encode_request
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually
from tests.broker.requests import (
    FETCH_BY_NAME,
    PRODUCE_BY_NAME,
    batch,
    create_topic,
    end_offset,
    fetch,
    fetch_request,
    new_name,
    only_partition,
    produce,
    produce_request,
    read_all,
    values_of,
)

FOR_EVER_MS = 2**31 - 1


def framed(request: object, version: int, correlation_id: int) -> bytes:
    frame = encode_request(request, version, correlation_id, "test")
    return len(frame).to_bytes(4, "big") + frame


def test_responses_have_the_order_of_pipelined_requests(wire: Wire, topic: str) -> None:
    for number in range(50):
        wire.send(produce_request(topic, batch(b"%d" % number)), version=PRODUCE_BY_NAME)
        wire.send(MetadataRequest(topics=()))
        wire.send(fetch_request(topic, number), version=FETCH_BY_NAME)
    for number in range(50):
        assert only_partition(wire.receive()).base_offset == number
        assert wire.receive().topics == ()
        assert values_of(only_partition(wire.receive()))[0] == b"%d" % number


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_request_after_a_long_poll_takes_effect_immediately_with_its_response_after_it(
    start_broker: StartBroker, connect: Connect, durability: str
) -> None:
    broker = start_broker(durability=durability)
    slow, other = connect(broker), connect(broker)
    create_topic(other, "waited-for")
    create_topic(other, "written")
    slow.send(fetch_request("waited-for", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    slow.send(produce_request("written", batch(b"behind")), version=PRODUCE_BY_NAME)
    assert values_of(fetch(other, "written", max_wait_ms=FOR_EVER_MS)) == [b"behind"]
    assert not slow.has_response(within_s=0.1)
    produce(other, "waited-for", batch(b"now"))
    assert values_of(only_partition(slow.receive())) == [b"now"]
    assert only_partition(slow.receive()).base_offset == 0


def test_long_poll_does_not_delay_other_connections(
    headrace_broker: Broker, connect: Connect, topic: str
) -> None:
    for _ in range(20):
        connect(headrace_broker).send(fetch_request(topic, max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    other = connect(headrace_broker)
    name = new_name()
    create_topic(other, name)
    for number in range(20):
        assert produce(other, name, batch(b"x")).base_offset == number


def test_own_produce_wakes_the_long_poll_before_it_on_the_same_connection(wire: Wire, topic: str) -> None:
    wire.send(fetch_request(topic, max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
    wire.send(produce_request(topic, batch(b"a")), version=PRODUCE_BY_NAME)
    assert values_of(only_partition(wire.receive())) == [b"a"]
    assert only_partition(wire.receive()).base_offset == 0


def test_frames_may_come_in_any_pieces(wire: Wire, topic: str) -> None:
    """Cut at random places, several frames in one piece or one frame in many."""
    chance = random.Random(7)
    count = 60
    stream = b"".join(
        framed(
            produce_request(topic, batch(b"v" * chance.randrange(300), b"%d" % number)),
            PRODUCE_BY_NAME,
            number,
        )
        for number in range(count)
    )
    position = 0
    while position < len(stream):
        size = chance.choice([1, 2, 3, 4, 5, 50, 500, 5000])
        wire.send_bytes(stream[position : position + size])
        position += size
    answered = [int.from_bytes(wire.receive_frame()[:4], "big") for _ in range(count)]
    assert answered == list(range(count))
    assert [record.value for record in read_all(wire, topic)][1::2] == [b"%d" % n for n in range(count)]


def test_request_sent_byte_by_byte_gets_its_response(wire: Wire) -> None:
    for byte in framed(ApiVersionsRequest(), 0, 77):
        wire.send_bytes(bytes([byte]))
    assert wire.receive_frame()[:4] == (77).to_bytes(4, "big")


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_every_request_is_handled_once_and_in_order_under_tiny_bounds(
    start_broker: StartBroker, connect: Connect, durability: str
) -> None:
    """Reading pauses and resumes all the time here; nothing may be lost, repeated or reordered."""
    broker = start_broker(
        durability=durability,
        connection_requests_max=3,
        connection_bytes_max=2_000,
        inflight_bytes_max=4_000,
    )
    create_topic(connect(broker), "t", partitions=4)
    rounds = 150
    failures: list[str] = []

    def write(index: int) -> None:
        wire = connect(broker)
        for number in range(rounds):
            request = produce_request("t", batch(b"%d" % number + b"x" * (number * 7 % 900)), partition=index)
            wire.send(request, version=PRODUCE_BY_NAME)
        offsets = [only_partition(wire.receive()).base_offset for _ in range(rounds)]
        if offsets != list(range(rounds)):
            failures.append(f"partition {index}: {offsets}")

    threads = [threading.Thread(target=write, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [end_offset(connect(broker), "t", partition=index) for index in range(4)] == [rounds] * 4


def test_client_that_disconnects_mid_request_does_not_affect_others(
    start_broker: StartBroker, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_broker(durability="fsync")
    other = connect(broker)
    create_topic(other, "t")
    create_topic(other, "idle")
    for number in range(30):
        with Wire(broker.bootstrap) as leaving:
            leaving.send(fetch_request("idle", max_wait_ms=FOR_EVER_MS), version=FETCH_BY_NAME)
            leaving.send(produce_request("t", batch(b"%d" % number)), version=PRODUCE_BY_NAME)
            leaving.send_bytes(b"\0\0\1\0half a frame")
    # Complete requests are handled; no response can be sent.
    eventually(lambda: end_offset(other, "t") == 30, "the writes of those that left are in the log")
    assert produce(other, "t", batch(b"more")).error_code == 0
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("in_background", [False, True])
def test_rejection_is_a_response_or_closes_the_connection_if_the_response_has_no_error_code(
    headrace_broker: Broker, connect: Connect, monkeypatch: pytest.MonkeyPatch, in_background: bool
) -> None:
    def reject(request: object, call: object) -> object:
        if not in_background:
            raise RequestRejected(ErrorCode.POLICY_VIOLATION, "not today")
        return reject_later()

    async def reject_later() -> object:
        raise RequestRejected(ErrorCode.POLICY_VIOLATION, "not today")

    for key in (ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_PRODUCERS):
        monkeypatch.setitem(HANDLERS, key, replace(HANDLERS[key], function=reject))
    wire = connect(headrace_broker)
    rejected = wire.request(DescribeClusterRequest())
    assert (rejected.error_code, rejected.error_message) == (ErrorCode.POLICY_VIOLATION, "not today")
    with pytest.raises(Disconnected):
        wire.request(DescribeProducersRequest(topics=()))
