"""How many requests are served at a time; one more is rejected, not queued."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.gateway.errors import Overloaded


class Slots:
    """`what` is their name in the error, such as "requests"."""

    def __init__(self, count_max: int, *, what: str) -> None:
        self._count_max = count_max
        self._what = what
        self.used = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        if self.used >= self._count_max:
            raise Overloaded(f"too many {self._what} at a time", hint="try again later, as Retry-After says")
        self.used += 1
        try:
            yield
        finally:
            self.used -= 1
