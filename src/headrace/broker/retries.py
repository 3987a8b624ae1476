"""Work that no client retries is retried here until it succeeds.

A disk that was full for a moment delays it no longer than that; a disk that has failed needs a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Generic, TypeVar

RETRY_MS_MIN, RETRY_MS_MAX = 50, 1_000

ResultT = TypeVar("ResultT")
WorkT = TypeVar("WorkT")


async def until_done(
    attempt: Callable[[], Awaitable[ResultT]],
    *,
    on_failure: Callable[[Exception], None],
    fails_on: type[Exception] | tuple[()] = (),
) -> ResultT:
    """Retry until it succeeds, with a back-off that grows. `on_failure` gets each failure, unexpected ones too."""
    pause_ms = RETRY_MS_MIN
    while True:
        try:
            return await attempt()
        except fails_on:
            raise
        except Exception as failure:
            on_failure(failure)
        await asyncio.sleep(pause_ms / 1000)
        pause_ms = min(2 * pause_ms, RETRY_MS_MAX)


class Retries(Generic[WorkT]):
    """Pieces of work that failed. `retry` is called a while after the first of them, and takes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, retry: Callable[[], None]) -> None:
        self._loop = loop
        self._retry = retry
        self._failed: dict[WorkT, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __bool__(self) -> bool:
        return bool(self._failed)

    def add(self, failed: Iterable[WorkT]) -> None:
        self._failed.update(dict.fromkeys(failed))
        if self._failed and self._timer is None and not self._is_closed:
            self._timer = self._loop.call_later(RETRY_MS_MAX / 1000, self._due)

    def take(self) -> list[WorkT]:
        failed, self._failed = [*self._failed], {}
        return failed

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _due(self) -> None:
        self._timer = None
        self._retry()
