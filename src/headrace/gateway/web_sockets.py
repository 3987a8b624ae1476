"""A stream over a WebSocket: each message is one JSON object, a record with its id.

Instead of a record, an object may have `gap` (records that retention has deleted before they were read), `error` (the
stream ends), or only `id`, or nothing (a heartbeat). What the client sends is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

import msgspec
from fastapi import WebSocket, WebSocketDisconnect

from headrace.errors import HeadraceError
from headrace.gateway.connections import abort
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.stream import Stream, Wire, json_with

logger = logging.getLogger(__name__)

TRY_AGAIN_LATER = 1013
"""The code of a stream that was closed because its client was too slow, or that ended with an error."""

WEB_SOCKET = Wire(
    name="ws",
    record=lambda id, data: json_with("id", id, data),
    gap=lambda id, data: msgspec.json.encode({"id": id, "gap": msgspec.Raw(data)}),
    error=lambda data: msgspec.json.encode({"error": msgspec.Raw(data)}),
    heartbeat=lambda id: b"{}" if id is None else msgspec.json.encode({"id": id}),
)


async def send_stream(socket: WebSocket, stream: Stream, settings: GatewaySettings) -> None:
    """Until the client is disconnected, or takes nothing for too long."""
    disconnected = asyncio.create_task(_close_when_disconnected(socket, stream))
    try:
        with contextlib.suppress(WebSocketDisconnect):
            await _send(socket, stream, settings)
            await socket.close(TRY_AGAIN_LATER)
    except TimeoutError:
        logger.warning("a client read nothing for %d ms and is disconnected", settings.send_ms_max)
        await abort(socket.scope)
    finally:
        disconnected.cancel()


async def _send(socket: WebSocket, stream: Stream, settings: GatewaySettings) -> None:
    try:
        while not stream.is_closed:
            for event in await stream.next(wait_s=settings.heartbeat_ms / 1000):
                async with asyncio.timeout(settings.send_ms_max / 1000):
                    await socket.send_text(event.decode())
    except HeadraceError as error:
        await socket.send_text(stream.error(error).decode())


async def _close_when_disconnected(socket: WebSocket, stream: Stream) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.receive()
    stream.close()
