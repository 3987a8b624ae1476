"""Bytes that are no request: the connection that sent them is closed, the broker and all other clients continue."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.broker.dispatch import HANDLERS
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.protocol.messages.produce import ProduceRequest
from headrace.protocol.primitives import uvarint
from headrace.testing.wire import Disconnected, Wire, decode_response, encode_request
from tests.broker.requests import batch, create_topic, produce, produce_request
from tests.faults.broker_process import BrokerProcess

REQUEST_BYTES_MAX = 10_000_000
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data_dir: Path = tmp_path_factory.mktemp("bad-frames") / "data"
    with BrokerProcess(data_dir, durability="os", request_bytes_max=REQUEST_BYTES_MAX) as running:
        with Wire(running.bootstrap) as wire:
            create_topic(wire, "t")
        yield running
        assert "Traceback" not in running.log, running.log


@pytest.fixture
def bystander(broker: BrokerProcess) -> Iterator[Callable[[], None]]:
    """Another connection, opened before; calling it shows that it still works."""
    with Wire(broker.bootstrap) as wire:

        def check() -> None:
            assert produce(wire, "t", batch(b"still here")).error_code == 0

        check()
        yield check
        check()


def head(api_key: int, version: int, *, client_id: bytes = b"x") -> bytes:
    return struct.pack(">hhih", api_key, version, 1, len(client_id)) + client_id


def is_rejected(broker: BrokerProcess, data: bytes) -> bool:
    with Wire(broker.bootstrap) as wire:
        try:
            wire.send_bytes(data)
        except Disconnected:
            return True
        return wire.is_closed_by_broker()


def frame(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("size", [-1, -(2**31), REQUEST_BYTES_MAX + 1, 2**31 - 1])
def test_impossible_frame_size_closes_the_connection(broker: BrokerProcess, size: int) -> None:
    assert is_rejected(broker, struct.pack(">i", size) + b"more")


@pytest.mark.usefixtures("bystander")
def test_frame_of_exactly_the_largest_size_is_taken(broker: BrokerProcess) -> None:
    request = produce_request("t", b"")
    spare = REQUEST_BYTES_MAX - len(encode_request(request, 3, 1, "x"))
    largest = encode_request(produce_request("t", b"\0" * spare), 3, 1, "x")
    assert len(largest) == REQUEST_BYTES_MAX
    with Wire(broker.bootstrap) as wire:
        wire.send_frame(largest)
        wire.receive_frame()


@pytest.mark.usefixtures("bystander")
def test_empty_and_short_frames_close_the_connection(broker: BrokerProcess) -> None:
    whole = encode_request(MetadataRequest(topics=None), 9, 1, "client")
    for size in range(len(whole)):
        assert is_rejected(broker, frame(whole[:size])), f"{size} of {len(whole)} bytes"


@pytest.mark.usefixtures("bystander")
def test_bytes_after_a_whole_message_are_ignored(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send_frame(encode_request(ApiVersionsRequest(), 0, 1, "x") + b"some clients leave bytes here")
        assert decode_response(wire.receive_frame(), ApiVersionsResponse, 0).error_code == 0


@pytest.mark.usefixtures("bystander")
def test_client_id_that_is_longer_than_the_frame_or_no_text_closes_the_connection(
    broker: BrokerProcess,
) -> None:
    assert is_rejected(broker, frame(struct.pack(">hhih", 18, 0, 1, 32767) + b"short"))
    assert is_rejected(broker, frame(head(18, 0, client_id=b"\xff\xfe")))


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("api_key", [4, 7, 67, 999, -1, 32767])
def test_unknown_api_key_closes_the_connection(broker: BrokerProcess, api_key: int) -> None:
    assert is_rejected(broker, frame(head(api_key, 0)))


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("api_key", sorted(HANDLERS))
def test_version_that_is_not_served_closes_the_connection(broker: BrokerProcess, api_key: int) -> None:
    if api_key == ApiKey.API_VERSIONS:
        return
    first, last = HANDLERS[api_key].versions
    for version in {-1, first - 1, last + 1, 32767} - set(range(first, last + 1)):
        assert is_rejected(broker, frame(head(api_key, version) + b"\0" * 100)), version


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_api_versions_of_the_future_gets_the_oldest_response_with_the_list(
    broker: BrokerProcess, version: int
) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.send_frame(head(ApiKey.API_VERSIONS, version) + b"\1\2\3 whatever the future brings")
        answer = decode_response(wire.receive_frame(), ApiVersionsResponse, 0)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert {one.api_key for one in answer.api_keys} == set(HANDLERS)
        # The client tries again on the same connection.
        assert wire.request(ApiVersionsRequest()).error_code == 0


@pytest.mark.usefixtures("bystander")
def test_half_a_frame_and_a_hang_up_leak_nothing(broker: BrokerProcess) -> None:
    whole = frame(encode_request(MetadataRequest(topics=None), 9, 1, "client"))
    for size in range(len(whole)):
        with Wire(broker.bootstrap) as wire:
            wire.send_bytes(whole[:size])


def count_bombs() -> Iterator[bytes]:
    """Requests whose array counts promise gigabytes that are not there."""
    for count in (1, 1000, 10**6, 2**31 - 1):
        plain = struct.pack(">i", count)
        yield head(ApiKey.METADATA, 1) + plain
        yield head(ApiKey.PRODUCE, 3) + struct.pack(">hhi", -1, 1, 1000) + plain
        yield head(ApiKey.FETCH, 4) + struct.pack(">iiiib", -1, 0, 0, 0, 0) + plain
        yield head(ApiKey.CREATE_TOPICS, 2) + plain
    for varint in (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x80\x80"):
        yield head(ApiKey.METADATA, 9) + b"\0" + varint
        yield head(ApiKey.METADATA, 9) + varint
        yield head(ApiKey.PRODUCE, 9) + b"\0\0" + struct.pack(">hi", -1, 1000) + varint


def test_array_counts_that_promise_gigabytes_close_the_connection_and_take_no_memory(
    broker: BrokerProcess, bystander: Callable[[], None]
) -> None:
    before = broker.resident_bytes()
    for bomb in count_bombs():
        assert is_rejected(broker, frame(bomb)), bomb
        bystander()
    assert broker.resident_bytes() - before < 20 * MEGABYTE


@pytest.mark.usefixtures("bystander")
def test_arrays_of_many_tiny_elements_stay_bounded_in_memory(broker: BrokerProcess) -> None:
    """Each element takes a few bytes on the wire and hundreds in memory; there is a bound on their number."""
    count = (REQUEST_BYTES_MAX - 100) // 2
    assert is_rejected(
        broker, frame(head(ApiKey.METADATA, 1) + struct.pack(">i", count) + b"\0" * (2 * count))
    )
    assert broker.peak_resident_bytes() < 400 * MEGABYTE


@pytest.mark.usefixtures("bystander")
def test_millions_of_tagged_fields_close_the_connection(broker: BrokerProcess) -> None:
    """Each takes two bytes on the wire and time to look past."""
    count = 4_000_000
    tags = uvarint(count) + b"\x7f\0" * count
    body = encode_request(MetadataRequest(topics=()), 9, 1, "x").removeprefix(head(ApiKey.METADATA, 9))
    assert is_rejected(broker, frame(head(ApiKey.METADATA, 9) + tags + body[1:])), "in the header"
    assert is_rejected(broker, frame(head(ApiKey.METADATA, 9) + body[:-1] + tags)), "in the message"


@pytest.mark.usefixtures("bystander")
def test_random_bytes_never_end_the_broker_nor_disturb_others(
    broker: BrokerProcess, bystander: Callable[[], None]
) -> None:
    chance = random.Random(20)
    before = broker.resident_bytes()
    for number in range(300):
        with Wire(broker.bootstrap) as wire:
            wire.send_bytes(chance.randbytes(chance.choice([1, 5, 20, 100, 3000])))
        if number % 50 == 0:
            bystander()
    assert broker.resident_bytes() - before < 50 * MEGABYTE


def test_random_bytes_after_a_valid_head_never_end_the_broker(
    broker: BrokerProcess, bystander: Callable[[], None]
) -> None:
    """The header is right, so that the decoder of every API and version gets to see the bytes."""
    chance = random.Random(21)
    for api_key, handler in sorted(HANDLERS.items()):
        for version in range(handler.versions[0], handler.versions[1] + 1):
            with Wire(broker.bootstrap) as wire:
                wire.send_frame(head(api_key, version) + chance.randbytes(chance.choice([3, 10, 40, 200])))
        bystander()


def test_mutated_requests_never_end_the_broker(broker: BrokerProcess, bystander: Callable[[], None]) -> None:
    chance = random.Random(22)
    whole = encode_request(produce_request("t", batch(b"a", b"b")), 9, 1, "client")
    for _ in range(400):
        mutated = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        with Wire(broker.bootstrap) as wire:
            wire.send_frame(bytes(mutated))
    bystander()


def test_requests_before_the_bad_one_have_taken_effect(broker: BrokerProcess) -> None:
    with Wire(broker.bootstrap) as wire:
        create_topic(wire, "before")
        good = encode_request(produce_request("before", batch(b"good")), 9, 1, "x")
        wire.send_bytes(frame(good) + frame(b"bad"))
        assert wire.is_closed_by_broker()
    with Wire(broker.bootstrap) as wire:
        assert produce(wire, "before", batch(b"next")).base_offset == 1


def test_rejections_are_logged_with_a_hint_and_counted(broker: BrokerProcess) -> None:
    assert is_rejected(broker, frame(head(999, 0)))
    assert "unknown API key 999" in broker.log
    assert "hint=" in broker.log


def test_produce_request_type_is_what_the_bombs_imitate() -> None:
    """The heads above must equal those of the codec, or the bombs would be rejected for another reason."""
    written = encode_request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=()), 9, 1, "x")
    assert written == head(ApiKey.PRODUCE, 9) + b"\0\0" + struct.pack(">hi", -1, 1000) + b"\1\0"
