"""One POST: no redirects, one deadline for all of it, and nothing of the response but its status."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from headrace.alerts.errors import DeliveryFailed
from headrace.redaction import redacted

TIMEOUT_S = 30.0
"""From the connection to the status of the response."""

_RETRIED = frozenset({408, 409, 425, 429})


def post(
    url: str, body: bytes, headers: Mapping[str, str], *, gone: frozenset[int] = frozenset({410})
) -> None:
    """DeliveryFailed unless the status is 2xx. A status in `gone`, or 4xx in general, is final."""
    try:
        status = asyncio.run(_post(url, body, headers))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise DeliveryFailed(f"{redacted(url)}: {str(error) or type(error).__name__}") from error
    if not 200 <= status < 300:
        is_final = status in gone or (400 <= status < 500 and status not in _RETRIED)
        raise DeliveryFailed(f"{redacted(url)} responds {status}", is_final=is_final)


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.post(url, data=body, headers=headers, allow_redirects=False) as response,
    ):
        return response.status
