"""What is rejected before any route: more requests than can be served, and the names of other hosts."""

from __future__ import annotations

from fastapi import Response
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.loopback import host_name
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.http.answers import error_response

REQUESTS_MAX = 200
"""In flight, without followers. More would only wait for a thread."""


class Load:
    """How many requests are in flight, without followers."""

    def __init__(self) -> None:
        self.requests = 0


class Bounded:
    """Rejects requests beyond the bound, and those with the name of another host."""

    def __init__(self, app: ASGIApp, *, load: Load, hosts: frozenset[str] | None) -> None:
        self._app = app
        self._load = load
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith("/follow"):
            # Followers have a bound of their own.
            rejected = self._other_host(scope) if scope["type"] == "http" else None
            await (rejected or self._app)(scope, receive, send)
            return
        rejected = self._other_host(scope)
        if rejected is None and self._load.requests >= REQUESTS_MAX:
            rejected = error_response(ViewUnavailable("too many requests", hint="try again later"))
        self._load.requests += 1
        try:
            await (rejected or self._app)(scope, receive, send)
        finally:
            self._load.requests -= 1

    def _other_host(self, scope: Scope) -> Response | None:
        """A page of another site may have its name point to this address."""
        host = Headers(scope=scope).get("host", "")
        if self._hosts is None or host_name(host) in self._hosts:
            return None
        return error_response(
            BadView("the header Host is not served", hint="use the address that the server printed"),
            status=403,
        )
