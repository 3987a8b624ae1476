"""Requests on one connection are answered in order, and a slow one holds up nobody else."""

from __future__ import annotations

import random
import threading

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.messages.api_versions import ApiVersionsRequest
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.testing.wire import Wire, encode_request
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


def test_pipelined_requests_are_answered_in_their_order(wire: Wire, topic: str) -> None:
    for number in range(50):
        wire.send(produce_request(topic, batch(b"%d" % number)), version=PRODUCE_BY_NAME)
        wire.send(MetadataRequest(topics=()))
        wire.send(fetch_request(topic, number), version=FETCH_BY_NAME)
    for number in range(50):
        assert only_partition(wire.receive()).base_offset == number
        assert wire.receive().topics == ()
        assert values_of(only_partition(wire.receive()))[0] == b"%d" % number


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_request_behind_a_long_poll_takes_effect_at_once_and_is_answered_after_it(
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


def test_long_poll_does_not_hold_up_other_connections(
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


def test_request_sent_byte_by_byte_is_answered(wire: Wire) -> None:
    for byte in framed(ApiVersionsRequest(), 0, 77):
        wire.send_bytes(bytes([byte]))
    assert wire.receive_frame()[:4] == (77).to_bytes(4, "big")


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_under_tiny_bounds_every_request_is_still_taken_once_and_answered_in_order(
    start_broker: StartBroker, connect: Connect, durability: str
) -> None:
    """Reading stops and goes on all the time here; nothing may be lost, repeated or exchanged."""
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


def test_client_that_leaves_in_the_middle_of_everything_disturbs_nobody(
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
    # What it had sent whole is taken; nobody can be told.
    eventually(lambda: end_offset(other, "t") == 30, "the writes of those that left are in the log")
    assert produce(other, "t", batch(b"more")).error_code == 0
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
