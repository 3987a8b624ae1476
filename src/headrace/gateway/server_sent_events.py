"""A stream as server-sent events (WHATWG): browsers resume it by themselves.

`id` is the position, and `data` is the record as JSON. An event named `gap` says which records retention has deleted
before they were read; an event named `error` says why the stream ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator

from fastapi import Response
from starlette.types import Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.gateway.connections import abort
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.stream import Stream, Wire

logger = logging.getLogger(__name__)

RETRY_MS_MIN, RETRY_MS_MAX = 500, 3_000
"""When a client reconnects. Not the same for all: after a restart they come at different times."""

SERVER_SENT_EVENTS = Wire(
    name="sse",
    record=lambda id, data: b"id: %b\ndata: %b\n\n" % (id.encode(), data),
    gap=lambda id, data: b"id: %b\nevent: gap\ndata: %b\n\n" % (id.encode(), data),
    error=lambda data: b"event: error\ndata: %b\n\n" % data,
    # Without data it is no event, but the client keeps the id.
    heartbeat=lambda id: b": heartbeat\n" if id is None else b"id: %b\n\n" % id.encode(),
)


class EventStreamResponse(Response):
    """Ends when the client is disconnected, or takes nothing for too long. `streams` is closed then."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, streams: contextlib.AsyncExitStack, settings: GatewaySettings) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._stream = stream
        self._streams = streams
        self._send_s_max = settings.send_ms_max / 1000
        self._heartbeat_s = settings.heartbeat_ms / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        disconnected = asyncio.create_task(self._close_when_disconnected(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for part in self._parts():
                async with asyncio.timeout(self._send_s_max):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            logger.warning("a client read nothing for %.0f s and is disconnected", self._send_s_max)
            await abort(scope)
        finally:
            disconnected.cancel()
            await self._streams.aclose()

    async def _parts(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n" % random.randint(RETRY_MS_MIN, RETRY_MS_MAX)
        try:
            while not self._stream.is_closed:
                if events := await self._stream.next(wait_s=self._heartbeat_s):
                    yield b"".join(events)
        except HeadraceError as error:
            yield self._stream.error(error)

    async def _close_when_disconnected(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._stream.close()
