"""Requests that still wait when the server stops: the server cancels them, and their clients get to know why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.gateway.connections import abort
from headrace.gateway.errors import Overloaded


class EndedByStop:
    """Middleware: a request without a response gets 503, and a stream ends. A server cancels only when it stops."""

    def __init__(self, app: ASGIApp, *, rejection: Callable[[Overloaded], Response]) -> None:
        self._app = app
        self._rejection = rejection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = False

        async def noted(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:
            if is_started:
                await abort(scope)
            else:
                error = Overloaded(
                    "the gateway stops", hint="send the same request to it when it has started"
                )
                await self._rejection(error)(scope, receive, send)
