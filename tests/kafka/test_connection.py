"""Requests over a plain socket, and servers that do not respond as a broker does."""

from __future__ import annotations

import socket
import threading

import pytest

from headrace.kafka.connection import Connection
from headrace.kafka.errors import RequestFailed
from headrace.kafka.settings import parse_address
from headrace.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headrace.testing import ports


def test_request_gets_its_response(bootstrap: str) -> None:
    with Connection(*parse_address(bootstrap), timeout_s=30) as broker:
        responses = [
            broker.request(ListGroupsRequest(), ListGroupsResponse, version=version) for version in (0, 5)
        ]

    assert [each.error_code for each in responses] == [0, 0]


def test_config_that_the_broker_does_not_have_is_none(bootstrap: str) -> None:
    with Connection(*parse_address(bootstrap), timeout_s=30) as broker:
        assert broker.config(32, "any-group", "no.such.config") is None


def test_address_where_nothing_listens_is_named() -> None:
    port = ports.free_port()

    with pytest.raises(RequestFailed, match=f"no broker answers at 127.0.0.1:{port}"):
        Connection("127.0.0.1", port, timeout_s=30)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 400 Bad Request", "a response of 1213486160 bytes"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x63", "another request"),
    ],
)
def test_server_that_is_no_broker_is_an_error(reply: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1_000)
                client.sendall(reply)

        threading.Thread(target=respond, daemon=True).start()
        with (
            Connection("127.0.0.1", server.getsockname()[1], timeout_s=30) as broker,
            pytest.raises(RequestFailed, match=reason),
        ):
            broker.request(ListGroupsRequest(), ListGroupsResponse, version=0)
