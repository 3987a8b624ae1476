"""An HTTP client of an application in the same process: no server, no port."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.types import ASGIApp


class AsgiClient:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def get(self, path: str, **options: Any) -> httpx.Response:
        async def get() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.get(path, **options)

        return asyncio.run(get())
