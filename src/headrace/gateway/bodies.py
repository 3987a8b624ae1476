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
    async def body(self, request: Request, *, bytes_max: int | None = None) -> AsyncIterator[bytes]:
        """The body, which counts until the context is left. It has its own bound, or that of the gateway."""
        bytes_max = min(bytes_max or self._settings.body_bytes_max, self._settings.body_bytes_max)
        announced = request.headers.get("content-length")
        if announced is not None and int(announced) > bytes_max:
            raise _too_large(bytes_max)
        parts = bytearray()
        try:
            await self._read(request, parts, bytes_max)
            yield bytes(parts)
        finally:
            self.bytes -= len(parts)

    async def _read(self, request: Request, parts: bytearray, bytes_max: int) -> None:
        try:
            async with asyncio.timeout(self._settings.body_ms_max / 1000):
                async for part in request.stream():
                    self.bytes += len(part)
                    parts += part
                    self._check(len(parts), bytes_max)
        except TimeoutError:
            raise BodyTooSlow(
                f"the body took longer than {self._settings.body_ms_max:,} ms",
                hint="send it in smaller requests",
            ) from None
        except ClientDisconnect:
            raise BadRequest("the client disconnected within the body") from None

    def _check(self, size: int, bytes_max: int) -> None:
        if size > bytes_max:
            raise _too_large(bytes_max)
        if self.bytes > self._settings.bodies_bytes_max:
            raise Overloaded("too many large requests at a time", hint="send the same request later")


def _too_large(bytes_max: int) -> BodyTooLarge:
    return BodyTooLarge(
        f"the body is larger than {bytes_max:,} bytes",
        hint="send several requests; body_bytes_max in [gateway] is the bound",
    )
