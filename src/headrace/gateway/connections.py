"""Connections that wait for a request, bounded in number and in time: half-open requests stop nobody.

uvicorn bounds neither. These are its own protocols, with timers and a list of the connections that wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from headrace.gateway.answers import error_answer, retry_after
from headrace.gateway.errors import BadRequest, Overloaded
from headrace.gateway.settings import GatewaySettings

_ABORT = "headrace.abort"

UNREAD_BYTES_MAX = 1_048_576
"""Of a rejected body that are still taken, so that the client gets to read the response. Then it is disconnected."""

INVALID = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)
NO_PLACE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Retry-After: %b\r\nContent-Length: %d\r\n\r\n%b"
)


async def abort(scope: Scope) -> None:
    """Close the connection of a request without waiting for a client that takes nothing."""
    if close := scope.get(_ABORT):
        close()
        await asyncio.sleep(0)  # the protocol learns of it in the next turn of the event loop


def _set_abort(scope: Any, transport: asyncio.Transport) -> None:
    scope.setdefault(_ABORT, transport.abort)


class Waiting:
    """The connections without a request, the oldest first."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.connections_max = settings.connections_max
        self.head_bytes_max = settings.head_bytes_max
        self.head_s_max = settings.head_ms_max / 1000
        self._retry_after_s_max = settings.retry_after_s_max
        self._connections: dict[Connection, None] = {}

    def add(self, connection: Connection) -> None:
        self._connections[connection] = None

    def remove(self, connection: Connection) -> None:
        self._connections.pop(connection, None)

    def rejection(self) -> bytes:
        """The response to a connection for which there is no place, whatever it requests."""
        error = Overloaded("too many connections", hint="try again later, as Retry-After says")
        body = msgspec.json.encode(error_answer(error))
        return NO_PLACE % (retry_after(self._retry_after_s_max).encode(), len(body), body)

    def drop_oldest(self) -> bool:
        """False if there is none."""
        oldest = next(iter(self._connections), None)
        if oldest is None:
            return False
        self.remove(oldest)
        oldest.transport.abort()
        return True


class Connection(H11Protocol):
    def __init__(self, *arguments: Any, waiting: Waiting, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting = waiting
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self._waiting.connections_max and not self._waiting.drop_oldest():
            transport.write(self._waiting.rejection())
            transport.close()
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._is_answered_early():
            self._unread_bytes += len(data)
            if self._unread_bytes > UNREAD_BYTES_MAX:
                self.transport.abort()
                return
        else:
            self._unread_bytes = 0
        super().data_received(data)
        if self._has_request():
            self._stop_waiting()
        elif self._head_timer is None:
            self._wait()

    def handle_events(self) -> None:
        super().handle_events()
        if self.scope is not None:
            # The task of the request begins after this.
            _set_abort(self.scope, self.transport)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_request():
            # uvicorn closes a connection that stays without another request.
            self._waiting.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """To bytes that are no request, or have a head that is too long."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.response_started and not cycle.response_complete:
            self.transport.abort()  # a response that has begun can't have another
            return
        hint = f"a head has up to {self._waiting.head_bytes_max:,} bytes: head_bytes_max in [gateway] is the bound"
        body = msgspec.json.encode(error_answer(BadRequest(msg, hint=hint)))
        self.transport.write(INVALID % (len(body), body))
        self.transport.close()

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_waiting()
        super().handle_websocket_upgrade(event)

    def _has_request(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _is_answered_early(self) -> bool:
        """Whether the client sends a body that nobody reads any more."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_complete and cycle.more_body

    def _wait(self) -> None:
        self._waiting.add(self)
        self._head_timer = self.loop.call_later(self._waiting.head_s_max, self._on_slow_head)

    def _stop_waiting(self) -> None:
        self._waiting.remove(self)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _on_slow_head(self) -> None:
        self._head_timer = None
        if not self._has_request():
            self.transport.abort()


class WebSocketConnection(WebSocketsSansIOProtocol):
    async def run_asgi(self) -> None:
        _set_abort(self.scope, self.transport)
        await super().run_asgi()


def connections(settings: GatewaySettings) -> Callable[..., asyncio.Protocol]:
    """What makes the connections of a server."""
    waiting = Waiting(settings)
    return lambda *arguments, **options: Connection(*arguments, waiting=waiting, **options)
