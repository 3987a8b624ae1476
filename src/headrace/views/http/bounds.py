"""What is rejected before any route: more requests than can be served."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.views.errors import ViewUnavailable
from headrace.views.http.answers import error_response

REQUESTS_MAX = 200
"""In flight, without followers. More would only wait for a thread."""


class Load:
    """How many requests are in flight, without followers."""

    def __init__(self) -> None:
        self.requests = 0


class Bounded:
    """Rejects requests beyond the bound."""

    def __init__(self, app: ASGIApp, *, load: Load) -> None:
        self._app = app
        self._load = load

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].endswith("/follow"):
            # Followers have a bound of their own.
            await self._app(scope, receive, send)
            return
        rejected = None
        if self._load.requests >= REQUESTS_MAX:
            rejected = error_response(ViewUnavailable("too many requests", hint="try again later"))
        self._load.requests += 1
        try:
            await (rejected or self._app)(scope, receive, send)
        finally:
            self._load.requests -= 1
