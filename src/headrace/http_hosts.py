"""The names in the header Host that a server on this machine serves.

A page of another site may have its own name point to a loopback address; its requests then carry that name.
"""

from __future__ import annotations

from collections.abc import Callable

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import HeadraceError
from headrace.loopback import host_name


class HostNotServed(HeadraceError):
    """A request with the name of another host."""


class ServedHosts:
    """Rejects requests and WebSockets with the name of another host. Without `hosts`, every name is served."""

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str] | None, rejection: Callable[[HeadraceError], Response]
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._rejection = rejection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._app if self._serves(scope) else self._rejected())(scope, receive, send)

    def _serves(self, scope: Scope) -> bool:
        if self._hosts is None or scope["type"] not in ("http", "websocket"):
            return True
        return host_name(Headers(scope=scope).get("host", "")) in self._hosts

    def _rejected(self) -> Response:
        return self._rejection(
            HostNotServed("the header Host is not served", hint="use the address that the server printed")
        )
