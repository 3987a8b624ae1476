"""The HTTP server of /metrics and /health: what one client does never keeps another from its page."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from headrace.broker.http_server import HEAD_BYTES_MAX, HttpServer, Page

GET = b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = b"x" * 20_000_000


async def _page(accept: str) -> Page:
    return Page(body=f"accept={accept}".encode())


async def _big(_accept: str) -> Page:
    return Page(body=BIG)


async def _broken(_accept: str) -> Page:
    raise ZeroDivisionError


@asynccontextmanager
async def serving(*, connections_max: int = 10, timeout_s: float = 30) -> AsyncIterator[int]:
    server = HttpServer(
        {"/page": _page, "/big": _big, "/broken": _broken},
        connections_max=connections_max,
        timeout_s=timeout_s,
    )
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        server.close()
        await asyncio.sleep(0)


async def get(port: int, request: bytes = GET) -> tuple[str, bytes]:
    """The first line of the response, and its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    response = await reader.read()
    writer.close()
    head, _, body = response.partition(b"\r\n\r\n")
    return head.decode().split("\r\n")[0], body


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /elsewhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (b"POST /page HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"GET /broken HTTP/1.1\r\n\r\n", "HTTP/1.1 500 Internal Server Error"),
        (b"hello\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\0\xff \xfe HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
    ],
)
def test_what_is_not_served_is_an_error_with_a_reason(request_bytes: bytes, status: str) -> None:
    async def scenario() -> None:
        async with serving() as port:
            line, body = await get(port, request_bytes)
            assert line == status
            assert body.endswith(b"\n")

    asyncio.run(scenario())


def test_page_gets_the_accept_header_and_head_has_no_body() -> None:
    async def scenario() -> None:
        async with serving() as port:
            assert await get(port, b"GET /page?x=1 HTTP/1.0\r\nAccept: a/b\r\n\r\n") == (
                "HTTP/1.1 200 OK",
                b"accept=a/b",
            )
            assert await get(port, b"HEAD /page HTTP/1.1\r\n\r\n") == ("HTTP/1.1 200 OK", b"")

    asyncio.run(scenario())


def test_half_a_request_delays_no_other_and_is_closed() -> None:
    async def scenario() -> None:
        async with serving(timeout_s=0.5) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GET[:10])
            assert await get(port) == ("HTTP/1.1 200 OK", b"accept=")
            with suppress(ConnectionError):
                assert await reader.read() == b""
            writer.close()

    asyncio.run(scenario())


def test_new_connection_closes_the_oldest_at_the_bound() -> None:
    async def scenario() -> None:
        async with serving(connections_max=3) as port:
            held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10)]
            for _ in range(2):
                assert (await get(port))[0] == "HTTP/1.1 200 OK"
            for _, writer in held:
                writer.close()

    asyncio.run(scenario())


def test_client_that_reads_no_response_is_closed() -> None:
    async def scenario() -> None:
        async with serving(timeout_s=0.5) as port:
            with socket.create_connection(("127.0.0.1", port)) as slow:
                slow.sendall(b"GET /big HTTP/1.1\r\n\r\n")
                assert await get(port) == ("HTTP/1.1 200 OK", b"accept=")
                await asyncio.sleep(1)
                received = 0
                with suppress(ConnectionError):
                    while part := slow.recv(1_000_000):
                        received += len(part)
                assert received < len(BIG)

    asyncio.run(scenario())


def test_head_without_end_is_closed() -> None:
    async def scenario() -> None:
        async with serving() as port:
            line, _ = await get(port, b"GET /page HTTP/1.1\r\nX: " + b"x" * 3 * HEAD_BYTES_MAX)
            assert line == ""

    asyncio.run(scenario())
