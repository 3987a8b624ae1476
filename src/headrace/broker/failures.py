"""Failures of background work, which no request waits for: logged, counted, and kept for a while for health."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

from headrace.clock import Clock
from headrace.errors import HeadraceError

logger = logging.getLogger(__name__)

KINDS_MAX = 10
"""Kinds of background work whose last failure is kept; there are fewer."""


class Failures:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, str]] = {}
        self.count = 0

    def report(self, what: str, error: BaseException, **fields: object) -> None:
        self.count += 1
        self._last.pop(what, None)
        self._last[what] = (self._clock.monotonic_s(), str(error) or type(error).__name__)
        if len(self._last) > KINDS_MAX:
            del self._last[next(iter(self._last))]
        log_failure(what, error, **fields)

    def report_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """For `set_exception_handler`: a task or a callback failed, and nothing retrieved its exception."""
        error = context.get("exception")
        if error is None:
            loop.default_exception_handler(context)
        else:
            self.report(context["message"], error)

    def within(self, seconds: float) -> Iterator[str]:
        """The last failure of each kind, if it is not older than this."""
        since_s = self._clock.monotonic_s() - seconds
        for what, (failed_s, reason) in self._last.items():
            if failed_s >= since_s:
                yield f"{what}: {reason}"


def log_failure(what: str, error: BaseException, **fields: object) -> None:
    # An error of the disk or of a setting explains itself; anything else is a bug and needs its traceback.
    is_explained = isinstance(error, (HeadraceError, OSError))
    logger.error(
        "%s: %s",
        what,
        error,
        exc_info=None if is_explained else error,
        extra={name: field for name, field in fields.items() if field},
    )
