"""Work that no client asks for again: it is tried until it succeeds.

A disk that was full for a moment holds up nobody for longer than that; one that has failed needs a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000

ResultT = TypeVar("ResultT")


async def until_done(
    attempt: Callable[[], Awaitable[ResultT]],
    *,
    on_failure: Callable[[Exception], None],
    gives_up_on: type[Exception] | tuple[()] = (),
) -> ResultT:
    """Try until it succeeds, with pauses that grow. `on_failure` hears of each failure, also of unexpected ones."""
    pause_ms = RETRY_MS_MIN
    while True:
        try:
            return await attempt()
        except gives_up_on:
            raise
        except Exception as failure:
            on_failure(failure)
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, RETRY_MS_MAX)
