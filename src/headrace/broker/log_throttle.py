"""Saying the same thing once in a while instead of with every retry of every client."""

from __future__ import annotations

# How long the same message about the same thing is kept back.
SILENCE_S = 10.0
# Different things remembered; when there are more, all may be said again.
REMEMBERED_MAX = 1_000


class LogThrottle:
    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], tuple[float, int]] = {}

    def suppressed(self, now_s: float, *what: object) -> int | None:
        """None when this was said a moment ago; otherwise how often it was kept back since."""
        said_s, count = self._said.get(what, (-SILENCE_S, 0))
        if now_s - said_s < SILENCE_S:
            self._said[what] = (said_s, count + 1)
            return None
        if len(self._said) >= REMEMBERED_MAX:
            self._said.clear()
        self._said[what] = (now_s, 0)
        return count
