"""Log the same message once per interval instead of with every retry of every client."""

from __future__ import annotations

# For how long the same message about the same object is suppressed.
SILENCE_S = 10.0
# Different messages that are kept; when there are more, all of them may be logged again.
REMEMBERED_MAX = 1_000


class LogThrottle:
    def __init__(self) -> None:
        self._said: dict[tuple[object, ...], tuple[float, int]] = {}

    def suppressed(self, now_s: float, *what: object) -> int | None:
        """None if this was logged within the interval; otherwise how often it was suppressed since."""
        said_s, count = self._said.get(what, (-SILENCE_S, 0))
        if now_s - said_s < SILENCE_S:
            self._said[what] = (said_s, count + 1)
            return None
        if len(self._said) >= REMEMBERED_MAX:
            self._said.clear()
        self._said[what] = (now_s, 0)
        return count
