"""The client of the tests: any message in any version, responses in their order, and bytes that are no message."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from headrace.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.protocol.messages.metadata import MetadataRequest
from headrace.testing import Wire
from headrace.testing.wire import Disconnected


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    with Wire(bootstrap) as wire:
        yield wire


def test_every_version_of_a_request_gets_its_response(wire: Wire) -> None:
    for version in range(5):
        assert isinstance(wire.request(ApiVersionsRequest(), version=version), ApiVersionsResponse)


def test_responses_are_received_in_the_order_of_their_requests(wire: Wire) -> None:
    ids = [wire.send(MetadataRequest(topics=())), wire.send(ApiVersionsRequest())]
    assert ids == [1, 2]
    assert wire.has_response(within_s=60)
    assert wire.receive().brokers
    assert wire.receive().api_keys
    assert not wire.has_response(within_s=0.01)


def test_bytes_that_are_no_message_end_the_connection(wire: Wire) -> None:
    wire.send_frame(b"\xff" * 20)
    assert wire.is_closed_by_broker()
    with pytest.raises(Disconnected):
        wire.receive_frame()


def test_open_connection_is_not_closed(wire: Wire) -> None:
    assert not wire.is_closed_by_broker(within_s=0.01)
    assert wire.request(ApiVersionsRequest()).api_keys


def test_response_with_a_wrong_correlation_id_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(struct.pack(">ii", 4, 99))

        thread = threading.Thread(target=answer)
        thread.start()
        with (
            Wire(f"127.0.0.1:{server.getsockname()[1]}") as wire,
            pytest.raises(AssertionError, match="got the response to request 99 instead of 1"),
        ):
            wire.request(ApiVersionsRequest())
        thread.join()
