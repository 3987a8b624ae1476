"""A small HTTP server on the broker's event loop, for pages that machines request.

It serves GET and HEAD, one request per connection. A client that sends half a request or reads no response delays
no other: the time of a request, the bytes of its head and the open connections are bounded. If there are too many,
the oldest is closed, so that a new one is always served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from email import message_from_string
from http import HTTPStatus

from msgspec import Struct

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX = 16_384
"""A request's first line and headers; a scraper sends a few hundred bytes."""


class Page(Struct, frozen=True, kw_only=True):
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    body: bytes


Pages = Mapping[str, Callable[[str], Awaitable[Page]]]
"""By path, the function that renders the page; it gets the request's Accept header."""


class HttpServer:
    def __init__(self, pages: Pages, *, connections_max: int, timeout_s: float) -> None:
        self._pages = pages
        self._connections_max = connections_max
        self._timeout_s = timeout_s
        # In the order in which they were accepted.
        self._open: dict[asyncio.Task[None], None] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen; the port."""
        self._listener = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        bound: int = self._listener.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        self._listener.close()
        for task in tuple(self._open):
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self._connections_max:
            next(iter(self._open)).cancel()
        self._open[task] = None
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._respond(head.decode("latin-1")))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has disconnected
        finally:
            del self._open[task]
            writer.transport.abort()

    async def _respond(self, head: str) -> bytes:
        first, _, headers = head.partition("\r\n")
        words = first.split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return _encode(_error(HTTPStatus.BAD_REQUEST, "this is not an HTTP request"))
        method, target, _ = words
        if method not in ("GET", "HEAD"):
            return _encode(_error(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are served"))
        page = await self._page(target.partition("?")[0], message_from_string(headers).get("Accept", ""))
        return _encode(page, with_body=method == "GET")

    async def _page(self, path: str, accept: str) -> Page:
        make_page = self._pages.get(path)
        if make_page is None:
            return _error(HTTPStatus.NOT_FOUND, f"there is only {' and '.join(self._pages)}")
        try:
            return await make_page(accept)
        except Exception:
            logger.exception("page failed", extra={"path": path})
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, "the broker's log has the reason")


def _error(status: HTTPStatus, text: str) -> Page:
    return Page(status=status, body=f"{text}\n".encode())


def _encode(page: Page, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}\r\nContent-Type: {page.content_type}\r\n"
        f"Content-Length: {len(page.body)}\r\nConnection: close\r\n\r\n"
    ).encode()
    return head + page.body if with_body else head
