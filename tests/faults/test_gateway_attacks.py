"""Attacks at full size on a gateway with its default limits: others are served meanwhile, and memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest
from confluent_kafka import Producer
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from benchmarks.processes import resident_mb
from headrace.kafka.cluster import Cluster
from tests.compatibility.gateway_process import GatewayProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HALF_OPEN = 10_000
HALF = b"POST /topics/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"
CONNECTION_KB_MAX = 50

HUGE_BYTES = 1_000_000_000
TAKEN_BYTES_MAX = 50_000_000
"""Of a huge body: what the gateway takes before it closes the connection, and what is in the buffers of sockets."""

TINY_BYTES = 10_400_000
"""Of a body with millions of records: as many as the gateway takes."""

TINY_MB_MAX = 600
"""Decoding such a body: an object of the decoder for each of them, and nothing more."""

SLOW_BODIES = 1_000
SILENT_SOCKETS = 100
SILENT_KB_MAX = 1_000
"""Of a WebSocket that never reads: two pages, and the copies that Python makes of one."""


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"attacks-{uuid.uuid4().hex[:12]}"
    Cluster(bootstrap, timeout_s=30).create_topic(name, partitions=1)
    return name


@pytest.fixture(autouse=True)
def descriptors() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < HALF_OPEN + 1_000:
        pytest.skip(f"a process may open only {hard} descriptors here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def is_served(gateway: GatewayProcess, topic: str, times: int = 20) -> bool:
    """On a new connection each time."""
    statuses = [
        httpx.post(f"{gateway.url}/topics/{topic}", json=1, timeout=60).status_code for _ in range(times)
    ]
    return statuses == [200] * times


def peak_resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024 / 1e6


@contextlib.contextmanager
def connections(gateway: GatewayProcess, count: int, content: bytes) -> Iterator[Sequence[socket.socket]]:
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(count):
            each = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=60))
            each.sendall(content)
            opened.append(each)
        yield opened


@pytest.mark.parametrize("connections_max", [10_240, 2_000])
def test_ten_thousand_half_open_requests_at_the_same_time(
    bootstrap: str, topic: str, connections_max: int
) -> None:
    with GatewayProcess(bootstrap, connections_max=connections_max, head_ms_max=120_000) as gateway:
        before_mb = resident_mb(gateway.pid)
        with connections(gateway, HALF_OPEN, HALF):
            assert is_served(gateway, topic)
            assert resident_mb(gateway.pid) - before_mb < HALF_OPEN * CONNECTION_KB_MAX / 1_000
        assert is_served(gateway, topic)


@pytest.mark.parametrize("chunked", [False, True])
def test_body_of_a_gigabyte_is_rejected_before_it_is_read(bootstrap: str, topic: str, chunked: bool) -> None:
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {HUGE_BYTES}"
    part = b"x" * 65_536
    part = b"%x\r\n%b\r\n" % (len(part), part) if chunked else part
    with GatewayProcess(bootstrap) as gateway:
        assert is_served(gateway, topic)
        before_mb = resident_mb(gateway.pid)
        sent = 0
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as client:
            client.sendall(
                f"POST /topics/{topic} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                f"{length}\r\n\r\n".encode()
            )
            with contextlib.suppress(ConnectionError):
                while sent < HUGE_BYTES:
                    client.sendall(part)
                    sent += len(part)
        assert sent < TAKEN_BYTES_MAX
        assert resident_mb(gateway.pid) - before_mb < TAKEN_BYTES_MAX / 1e6
        assert is_served(gateway, topic)


@pytest.mark.parametrize(
    ("content_type", "start", "record", "end"),
    [
        ("application/x-ndjson", "", "1\n", ""),
        ("application/json", "[", "1,", "1]"),
        ("application/vnd.kafka.json.v2+json", '{"records":[', "{},", "{}]}"),
        ("application/vnd.kafka.binary.v2+json", '{"records":[', "{},", "{}]}"),
        ("application/cloudevents-batch+json", "[", "{},", "{}]"),
    ],
)
def test_body_with_millions_of_records_is_rejected_before_they_are_made(
    bootstrap: str, topic: str, content_type: str, start: str, record: str, end: str
) -> None:
    body = start + record * (TINY_BYTES // len(record)) + end
    with GatewayProcess(bootstrap) as gateway:
        assert is_served(gateway, topic)
        before_mb = peak_resident_mb(gateway.pid)
        response = httpx.post(
            f"{gateway.url}/topics/{topic}",
            content=body,
            headers={"Content-Type": content_type},
            timeout=60,
        )
        assert response.status_code == 422
        assert "more than 10,000 records" in response.json()["message"]
        assert peak_resident_mb(gateway.pid) - before_mb < TINY_MB_MAX
        assert is_served(gateway, topic)


@pytest.mark.parametrize("path", ["/topics/{topic}", "/subjects/{topic}-value/versions"])
def test_a_thousand_bodies_that_never_end(bootstrap: str, topic: str, path: str) -> None:
    head = (
        f"POST {path.format(topic=topic)} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000\r\n\r\n["
    )
    with (
        GatewayProcess(bootstrap, body_ms_max=20_000, schema_registry="true") as gateway,
        connections(gateway, SLOW_BODIES, head.encode()) as clients,
    ):
        assert is_served(gateway, topic)
        for each in clients:
            with contextlib.suppress(ConnectionError):
                each.sendall(b"1,")
        assert is_served(gateway, topic)
        assert {each.recv(12) for each in clients} == {b"HTTP/1.1 408"}


def test_a_hundred_web_sockets_that_never_read(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    address = f"/topics/{topic}/ws"
    with GatewayProcess(bootstrap, send_ms_max=3_000) as gateway, contextlib.ExitStack() as stack:
        url = f"ws://127.0.0.1:{gateway.port}{address}"
        silent = [
            stack.enter_context(connect(url, max_queue=1, max_size=None)) for _ in range(SILENT_SOCKETS)
        ]
        reading = stack.enter_context(connect(url, max_size=None))
        before_mb = resident_mb(gateway.pid)
        for number in range(300):
            value = json.dumps([number, "x" * 100_000])
            producer.produce(topic, value)
            assert producer.flush(30) == 0
            assert json.loads(reading.recv(60))["value"][0] == number
            if number % 30 == 0:
                grown_mb = resident_mb(gateway.pid) - before_mb
                assert grown_mb < 50 + SILENT_SOCKETS * SILENT_KB_MAX / 1_000
        for each in silent:
            with pytest.raises(ConnectionClosed):
                read_all(each)
        assert is_served(gateway, topic)


def read_all(client: object) -> None:
    while True:
        client.recv(60)  # type: ignore[attr-defined]
