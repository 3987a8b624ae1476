"""Clients that hold connections, send endless heads or huge bodies: they stop nobody, and memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator

import pytest

from benchmarks.processes import resident_mb
from tests.gateway.conftest import Serve, Serving

pytestmark = pytest.mark.timeout(180)

HALF = b"POST /topics/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"


@contextlib.contextmanager
def half_open(gateway: Serving, count: int) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(count):
            each = stack.enter_context(gateway.socket())
            each.sendall(HALF)
            sockets.append(each)
        yield sockets


def is_closed(client: socket.socket) -> bool:
    client.settimeout(60)
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def post(gateway: Serving, topic: str) -> int:
    return gateway.post(f"/topics/{topic}", "1", "application/json").status_code


def test_half_open_requests_stop_nobody(serve: Serve, topic: str) -> None:
    gateway = serve(connections_max=20)
    with half_open(gateway, 100) as clients:
        gateway.client.headers["Connection"] = "close"
        assert [post(gateway, topic) for _ in range(10)] == [200] * 10
        assert is_closed(clients[0]), "the oldest is closed for a new one"


def test_head_that_does_not_end_is_closed_in_time(serve: Serve) -> None:
    gateway = serve(head_ms_max=100)
    with gateway.socket() as silent, half_open(gateway, 1) as (half,):
        assert is_closed(silent)
        assert is_closed(half)


def test_request_in_progress_is_never_closed_for_a_new_connection(serve: Serve, topic: str) -> None:
    gateway = serve(connections_max=3, head_ms_max=100)
    with gateway.events(f"/topics/{topic}/stream") as events, half_open(gateway, 20):
        gateway.client.headers["Connection"] = "close"
        assert post(gateway, topic) == 200
        assert next(events).data


def test_connection_beyond_the_bound_gets_503_if_all_others_are_in_use(serve: Serve, topic: str) -> None:
    gateway = serve(connections_max=1)
    with gateway.events(f"/topics/{topic}/stream"), gateway.socket() as client:
        received = client.recv(1_000)
    assert received.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: " in received


def test_body_that_does_not_end_is_rejected_in_time(serve: Serve, topic: str) -> None:
    gateway = serve(body_ms_max=100)
    with gateway.socket() as client:
        client.sendall(
            f"POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Content-Length: 100\r\n\r\n{".encode()
        )
        assert b"408" in client.recv(1_000).split(b"\r\n")[0]


def test_body_that_comes_byte_by_byte_is_rejected_in_time(serve: Serve, topic: str) -> None:
    gateway = serve(body_ms_max=300)
    with gateway.socket() as client:
        client.sendall(
            f"POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Content-Length: 1000000\r\n\r\n".encode()
        )
        client.settimeout(0.01)
        received = b""
        while not received:
            with contextlib.suppress(ConnectionError):
                client.sendall(b"1")
            with contextlib.suppress(TimeoutError):
                received = client.recv(1_000)
    assert received.startswith(b"HTTP/1.1 408 ")


CHUNKED = "Host: 127.0.0.1\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("body", "bomb"),
    [(b"1\r\n1\r\n0\r\n", b"X-%d: y\r\n"), (b"1;", b"extension%d=y;"), (b"", b"%d0")],
    ids=["trailers", "extensions", "length"],
)
def test_endless_frame_of_a_chunked_body_is_rejected(
    serve: Serve, topic: str, body: bytes, bomb: bytes
) -> None:
    gateway = serve(head_bytes_max=10_000)
    before_mb = resident_mb(os.getpid())
    with gateway.socket() as client:
        client.sendall(f"POST /topics/{topic} HTTP/1.1\r\n{CHUNKED}".encode() + body)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 100_000_000:
                part = b"".join(bomb % each for each in range(1_000))
                client.sendall(part)
                sent += len(part)
        assert sent < 20_000_000, "the gateway closes the connection"
    assert resident_mb(os.getpid()) - before_mb < 50
    assert post(gateway, topic) == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_huge_body_is_rejected_before_it_is_in_memory(serve: Serve, topic: str, chunked: bool) -> None:
    gateway = serve(body_bytes_max=100_000)
    length = "Transfer-Encoding: chunked" if chunked else "Content-Length: 1000000000"
    before_mb = resident_mb(os.getpid())
    with gateway.socket() as client:
        client.sendall(
            f"POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"{length}\r\n\r\n".encode()
        )
        part = b"x" * 65_536
        part = b"%x\r\n%b\r\n" % (len(part), part) if chunked else part
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 200_000_000:
                client.sendall(part)
                sent += len(part)
        assert sent < 50_000_000, "the gateway closes the connection"
    assert resident_mb(os.getpid()) - before_mb < 50
    assert post(gateway, topic) == 200


def test_client_that_announces_a_huge_body_gets_413(gateway: Serving, topic: str) -> None:
    with gateway.socket() as client:
        client.sendall(
            f"POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            "Expect: 100-continue\r\nContent-Length: 1000000000\r\n\r\n".encode()
        )
        assert client.recv(1_000).startswith(b"HTTP/1.1 413 ")


def test_head_that_is_too_long_is_rejected(serve: Serve) -> None:
    gateway = serve(head_bytes_max=10_000)
    with gateway.socket() as client:
        client.sendall(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        received = b""
        with contextlib.suppress(ConnectionError):
            for each in range(10_000):
                client.sendall(b"X-%d: %b\r\n" % (each, b"x" * 100))
        with contextlib.suppress(ConnectionError):
            received = client.recv(1_000)
        assert received == b"" or received.startswith(b"HTTP/1.1 400 ")
    assert gateway.get("/topics").status_code == 200


def test_bytes_that_are_no_request_are_an_error_in_the_same_form(gateway: Serving) -> None:
    with gateway.socket() as client:
        client.sendall(b"\x16\x03\x01 no request\r\n\r\n")
        head, _, body = client.recv(10_000).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert "head_bytes_max" in json.loads(body)["hint"]


def test_connection_is_used_for_several_requests(gateway: Serving, topic: str) -> None:
    with gateway.socket() as client:
        for _ in range(3):
            client.sendall(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            assert client.recv(100_000).startswith(b"HTTP/1.1 200 ")
