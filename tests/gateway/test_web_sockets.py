"""Streams over WebSockets, with the client library `websockets`."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.gateway.conftest import NewTopic, Serve, Serving, Write

pytestmark = pytest.mark.timeout(120)


def opened(gateway: Serving, path: str, **options: Any) -> ClientConnection:
    client: ClientConnection = connect(f"ws://127.0.0.1:{gateway.port}{path}", **options)
    return client


def test_each_message_is_a_record_with_its_id_and_the_stream_resumes_after_it(
    gateway: Serving, topic: str, write: Write
) -> None:
    write(topic, b"1", b"2", b"3", partition=0)
    with opened(gateway, f"/topics/{topic}/ws?from=earliest") as client:
        first = json.loads(client.recv(30))
    assert (first["value"], first["offset"]) == (1, 0)
    with opened(gateway, f"/topics/{topic}/ws?last_event_id={first['id']}") as client:
        assert [json.loads(client.recv(30))["value"] for _ in range(2)] == [2, 3]
        client.send("what clients send is ignored")
        write(topic, b"4", partition=1)
        assert json.loads(client.recv(30))["value"] == 4


def test_one_web_socket_has_several_topics(
    gateway: Serving, topic: str, new_topic: NewTopic, write: Write
) -> None:
    other = new_topic(1)
    write(topic, b"1", partition=0)
    write(other, b"2", partition=0)
    with opened(gateway, f"/ws?topics={topic},{other}&from=earliest") as client:
        assert {json.loads(client.recv(30))["value"] for _ in range(2)} == {1, 2}


def test_records_that_retention_deleted_are_reported(
    serve: Serve, gateway: Serving, topic: str, write: Write
) -> None:
    write(topic, b"1", b"2", b"3", partition=0)
    with opened(gateway, f"/topics/{topic}/ws?from=earliest") as client:
        first = json.loads(client.recv(30))
    gateway.cluster.delete_records({gateway.cluster.partitions(topic)[0]: 2})
    # Another gateway, because this one still has them in its buffer.
    with opened(serve(), f"/topics/{topic}/ws?last_event_id={first['id']}") as client:
        gap, record = (json.loads(client.recv(30)) for _ in range(2))
    assert gap["gap"] == {"topic": topic, "partition": 0, "first": 1, "next": 2}
    assert record["value"] == 3


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/topics/{topic}/ws", {"Origin": "https://evil.example"}, 403),
        ("/topics/{topic}/ws", {"Host": "evil.example"}, 403),
        ("/topics/{topic}/ws?from=soon", {}, 400),
        ("/topics/no-such-topic/ws", {}, 404),
    ],
)
def test_wrong_request_is_rejected_with_its_status(
    gateway: Serving, topic: str, path: str, headers: dict[str, str], status: int
) -> None:
    address, options = gateway.url.replace("http", "ws"), dict[str, Any](additional_headers=headers)
    with gateway.socket() as plain:
        if "Host" in headers:
            address, options = "ws://evil.example", {"sock": plain}
        with pytest.raises(InvalidStatus) as rejected, connect(address + path.format(topic=topic), **options):
            pass
    assert rejected.value.response.status_code == status


def test_page_that_is_allowed_may_open_a_web_socket(serve: Serve, topic: str, write: Write) -> None:
    gateway = serve(cors_origins="https://shop.example")
    with opened(gateway, f"/topics/{topic}/ws", origin="https://shop.example") as client:
        write(topic, b"1", partition=0)
        assert json.loads(client.recv(30))["value"] == 1


def test_client_that_never_reads_is_disconnected_and_stops_nobody(
    serve: Serve, topic: str, write: Write
) -> None:
    gateway = serve(send_ms_max=300, subscribers_max=2)
    value = b'"' + b"x" * 900_000 + b'"'
    path = f"/topics/{topic}/ws"
    with opened(gateway, path, max_queue=1, max_size=None) as slow:
        with opened(gateway, path, max_size=None) as quick:
            for _ in range(20):
                write(topic, value, partition=0)
                assert len(json.loads(quick.recv(30))["value"]) == 900_000
        wait_until_a_stream_is_open(gateway, topic)
        with pytest.raises(ConnectionClosed):
            read_all(slow)


def wait_until_a_stream_is_open(gateway: Serving, topic: str) -> None:
    """Two at a time, of which the slow client has one until it is disconnected."""
    deadline_s = time.monotonic() + 60
    while True:
        with (
            contextlib.suppress(InvalidStatus, AssertionError),
            opened(gateway, f"/topics/{topic}/ws"),
            gateway.events(f"/topics/{topic}/stream"),
        ):
            return
        assert time.monotonic() < deadline_s, "the place of the slow client is never free"


def read_all(client: ClientConnection) -> None:
    while True:
        client.recv(30)
