"""Reading the body of a request: bounded in bytes, in time, and together with all other bodies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.requests import ClientDisconnect

from headrace.gateway.errors import BadRequest, BodyTooLarge, BodyTooSlow, Overloaded
from headrace.gateway.settings import GatewaySettings


class Bodies:
    """All bodies that are in memory."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self.bytes = 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """The body, which counts until the context is left."""
        self._check_length(request.headers.get("content-length"))
        parts = bytearray()
        try:
            await self._read(request, parts)
            yield bytes(parts)
        finally:
            self.bytes -= len(parts)

    async def _read(self, request: Request, parts: bytearray) -> None:
        try:
            async with asyncio.timeout(self._settings.body_ms_max / 1000):
                async for part in request.stream():
                    self.bytes += len(part)
                    parts += part
                    self._check(len(parts))
        except TimeoutError:
            raise BodyTooSlow(
                f"the body took longer than {self._settings.body_ms_max:,} ms",
                hint="send it in smaller requests",
            ) from None
        except ClientDisconnect:
            raise BadRequest("the client disconnected within the body") from None

    def _check_length(self, announced: str | None) -> None:
        if announced is not None and int(announced) > self._settings.body_bytes_max:
            raise self._too_large()

    def _check(self, size: int) -> None:
        if size > self._settings.body_bytes_max:
            raise self._too_large()
        if self.bytes > self._settings.bodies_bytes_max:
            raise Overloaded("too many large requests at a time", hint="send the same request later")

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body is larger than {self._settings.body_bytes_max:,} bytes",
            hint="send several requests; body_bytes_max in [gateway] is the bound",
        )
