"""One attempt, against servers that answer, fail, hang, redirect and attack."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from headrace.clock import SystemClock
from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.outcomes import Answer, Verdict
from headrace.webhooks.outgoing.sender import ANSWER_BYTES_MAX, Sender
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.target import Target
from tests.webhooks.outgoing.certificates import server_context
from tests.webhooks.outgoing.conftest import SECRET, Receiver, target_of
from tests.webhooks.outgoing.test_dialling import Names

SENT_MAX = 20 * 1024 * 1024
"""What the buffers of both ends of a loopback connection take at most, with room to spare."""

Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """Speaks bytes, and counts connections and what it could send."""

    def __init__(self, behave: Behave) -> None:
        self._behave = behave
        self.connections = 0
        self.sent = 0
        self.port = 0

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._behave(reader, writer)
        writer.close()


def message(value: bytes = b'{"a": 1}') -> Outgoing:
    return Outgoing(
        message_id="msg_1",
        origin=MessageId("orders", 0, 7),
        timestamp_ms=0,
        key=None,
        value=value,
        headers=(),
    )


async def read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)


def send_to(behave: Behave, *, count: int = 1, **options: Any) -> tuple[list[Answer], RawServer]:
    """The answers to requests one after the other."""

    async def run() -> tuple[list[Answer], RawServer]:
        raw = RawServer(behave)
        server = await raw.start()
        target = target_of("orders", f"http://127.0.0.1:{raw.port}/", **{"timeout_ms": 500, **options})
        sender = Sender(target, OutgoingSettings(), SystemClock())
        try:
            return [await sender.send(message()) for _ in range(count)], raw
        finally:
            await sender.close()
            server.close()

    return asyncio.run(run())


def send_once(target: Target, lookup: Any = socket.getaddrinfo, value: bytes = b'{"a": 1}') -> Answer:
    async def run() -> Answer:
        sender = Sender(target, OutgoingSettings(), SystemClock(), lookup=lookup)
        try:
            return await sender.send(message(value))
        finally:
            await sender.close()

    return asyncio.run(run())


def test_request_is_signed_and_has_the_headers_of_the_target(receiver: Receiver) -> None:
    target = target_of("orders", receiver.url(), headers={"Authorization": "Bearer t"})
    answer = send_once(target, value=b"\xff\x00 any bytes")
    assert (answer.status, answer.error) == (204, "")
    (received,) = receiver.received()
    assert received.body == b"\xff\x00 any bytes"
    assert received.headers["authorization"] == "Bearer t"
    assert received.headers["content-type"] == "application/octet-stream"
    assert received.headers["user-agent"].startswith("headrace-webhook/")
    assert "cookie" not in received.headers


def test_each_attempt_is_signed_again_with_its_own_time(receiver: Receiver) -> None:
    class Later:
        def __init__(self) -> None:
            self.now = SystemClock().now_ms() - 120_000

        def now_ms(self) -> int:
            self.now += 60_000
            return self.now

        def monotonic_s(self) -> float:
            return self.now / 1000

    async def run() -> None:
        sender = Sender(target_of("orders", receiver.url()), OutgoingSettings(), Later())
        for _ in range(2):
            await sender.send(message())
        await sender.close()

    asyncio.run(run())
    first, second = (each.headers for each in receiver.received())
    assert first["webhook-id"] == second["webhook-id"] == "msg_1"
    assert int(second["webhook-timestamp"]) == int(first["webhook-timestamp"]) + 60
    for each in receiver.received():
        Webhook(SECRET).verify(each.body, dict(each.headers))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_is_a_failure_and_is_not_followed(status: int, receiver: Receiver) -> None:
    async def redirect(_request: web.Request, _body: bytes) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": receiver.url("/elsewhere")})

    receiver.answers["/hook"] = redirect
    answer = send_once(target_of("orders", receiver.url()))
    assert answer.error == f"HTTP {status}: redirects are not followed"
    assert answer.verdict is Verdict.FAILED
    assert receiver.received("/elsewhere") == []


def test_retry_after_is_passed_on(receiver: Receiver) -> None:
    async def busy(_request: web.Request, _body: bytes) -> web.StreamResponse:
        return web.Response(status=503, headers={"Retry-After": "7"})

    receiver.answers["/hook"] = busy
    answer = send_once(target_of("orders", receiver.url()))
    assert (answer.verdict, answer.retry_after_ms) == (Verdict.FAILED, 7_000)


def test_hanging_server_ends_at_the_timeout() -> None:
    async def hang(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)

    (answer,), _ = send_to(hang)
    assert (answer.status, answer.error) == (None, "no answer within 0.5 s")


def test_head_that_comes_byte_by_byte_ends_at_the_timeout() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for byte in b"HTTP/1.1 204 No Content\r\nX: " + b"x" * 10_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.02)

    (answer,), _ = send_to(drip)
    assert answer.status is None
    assert answer.verdict is Verdict.FAILED


def test_body_that_comes_byte_by_byte_does_not_delay_the_verdict() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(1_000):
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    answers, raw = send_to(drip, count=2)
    assert [each.status for each in answers] == [200, 200]
    assert raw.connections == 2, "the connection is not used again"


def test_body_of_a_gigabyte_is_not_read() -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        block = bytes(1 << 16)
        for _ in range(1_000_000_000 // len(block)):
            writer.write(block)
            await writer.drain()
            sent += len(block)

    (answer,), _ = send_to(flood)
    assert answer.status == 200
    assert sent < SENT_MAX


def test_compressed_body_is_not_unpacked() -> None:
    """Unpacked, it would be too large for the connection to be used again."""
    packed = gzip.compress(bytes(10_000_000))
    assert len(packed) < ANSWER_BYTES_MAX

    async def bomb(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await read_request(reader)
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
                + packed
            )
            await writer.drain()

    answers, raw = send_to(bomb, count=2)
    assert [each.status for each in answers] == [200, 200]
    assert raw.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 2xx Fine\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 1_000_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"\x00" * 1_000,
    ],
    ids=["closed", "ssh", "status", "long-header", "many-headers", "length", "zeros"],
)
def test_answer_that_is_no_http_is_a_failure_without_its_text(answer: bytes) -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    (found,), _ = send_to(garbage)
    assert found.status is None
    assert found.error in (
        "the connection was closed before an answer",
        "the answer is not valid HTTP",
        "no answer within 0.5 s",
    )


def test_reason_and_body_of_an_answer_are_in_no_error() -> None:
    async def reflect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 500 s3cret\r\nContent-Length: 6\r\n\r\ns3cret")
        await writer.drain()

    (answer,), _ = send_to(reflect)
    assert (answer.status, answer.error) == (500, "HTTP 500")


def test_connection_is_used_again_after_a_small_body() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            await read_request(reader)
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % 5_000 + bytes(5_000))
            await writer.drain()

    answers, raw = send_to(serve, count=3)
    assert [each.status for each in answers] == [200, 200, 200]
    assert raw.connections == 1
    assert ANSWER_BYTES_MAX > 5_000


def test_closed_port_is_a_failure_that_names_the_place() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answer = send_once(target_of("orders", f"http://127.0.0.1:{port}/?token=s3cret"))
    assert answer.status is None
    assert answer.error.startswith(f"can't connect to http://127.0.0.1:{port}")
    assert "s3cret" not in answer.error


def test_inside_address_is_a_failure_that_names_the_reason(receiver: Receiver) -> None:
    target = target_of("orders", f"https://shop.example:{receiver.port}/", allow_inside=False)
    answer = send_once(target, Names(["127.0.0.1"]).lookup)
    assert answer.error == "the address 127.0.0.1 is inside: loopback"
    assert receiver.received() == []


def test_name_that_does_not_exist_is_a_failure() -> None:
    def unknown(*_arguments: Any, **_options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    answer = send_once(target_of("orders", "https://shop.example/", allow_inside=False), unknown)
    assert answer.error == "the name shop.example can't be resolved"


def test_proxy_of_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert send_once(target_of("orders", receiver.url())).status == 204


@contextlib.contextmanager
def tls_server(folder: Path) -> Iterator[tuple[int, Path]]:
    """Answers each request with 204, for the name shop.example."""
    context, chain = server_context("shop.example", folder)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError), context.wrap_socket(plain, server_side=True) as opened:
                opened.recv(65_536)
                opened.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1], chain
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join()


def test_certificate_has_to_be_valid_for_the_name_of_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookup = Names(["127.0.0.1"]).lookup
    with tls_server(tmp_path) as (port, chain):
        untrusted = send_once(target_of("orders", f"https://shop.example:{port}/"), lookup)
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        trusted = send_once(target_of("orders", f"https://shop.example:{port}/"), lookup)
        other = send_once(target_of("orders", f"https://other.example:{port}/"), lookup)
    assert trusted.status == 204
    assert untrusted.error.startswith("TLS: ")
    assert other.error.startswith("TLS: ")
