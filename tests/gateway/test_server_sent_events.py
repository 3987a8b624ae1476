"""The lines of server-sent events, and a client that takes nothing."""

from __future__ import annotations

import time

import pytest

from headrace.gateway.server_sent_events import RETRY_MS_MAX, RETRY_MS_MIN, SERVER_SENT_EVENTS
from tests.gateway.conftest import Serve, Write

pytestmark = pytest.mark.timeout(120)


def test_events_have_the_lines_of_the_standard() -> None:
    wire = SERVER_SENT_EVENTS
    assert wire.record("7", b"{}") == b"id: 7\ndata: {}\n\n"
    assert wire.gap("7", b"{}") == b"id: 7\nevent: gap\ndata: {}\n\n"
    assert wire.error(b"{}") == b"event: error\ndata: {}\n\n"
    assert (wire.heartbeat(None), wire.heartbeat("7")) == (b": heartbeat\n", b"id: 7\n\n")


def test_client_is_told_to_reconnect_at_a_time_of_its_own(serve: Serve, topic: str, write: Write) -> None:
    gateway = serve()
    write(topic, b"1", partition=0)
    with gateway.events(f"/topics/{topic}/stream", **{"from": "earliest"}) as events:
        assert RETRY_MS_MIN <= (next(events).retry or 0) <= RETRY_MS_MAX


def test_client_that_takes_nothing_is_disconnected(serve: Serve, topic: str, write: Write) -> None:
    gateway = serve(send_ms_max=300, subscribers_max=1)
    write(topic, *[b'"' + b"x" * 900_000 + b'"'] * 20, partition=0)
    with gateway.socket() as client:
        client.sendall(
            f"GET /topics/{topic}/stream?from=earliest HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        )
        deadline_s = time.monotonic() + 60
        while True:
            with gateway.client.stream("GET", f"/topics/{topic}/stream") as response:
                if response.status_code == 200:
                    return
            assert time.monotonic() < deadline_s, "the place of the slow client is never free"
