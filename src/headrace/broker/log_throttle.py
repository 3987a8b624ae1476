"""Log the same message once per interval instead of with every retry of every client."""

from __future__ import annotations

# For how long the same message about the same object is suppressed.
INTERVAL_S = 10.0
# Different messages that are kept; when there are more, all of them may be logged again.
MESSAGES_MAX = 1_000


class LogThrottle:
    def __init__(self) -> None:
        self._logged: dict[tuple[object, ...], tuple[float, int]] = {}

    def suppressed(self, now_s: float, *what: object) -> int | None:
        """None if this was logged within the interval; otherwise how often it was suppressed since."""
        logged_s, count = self._logged.get(what, (-INTERVAL_S, 0))
        if now_s - logged_s < INTERVAL_S:
            self._logged[what] = (logged_s, count + 1)
            return None
        if len(self._logged) >= MESSAGES_MAX:
            self._logged.clear()
        self._logged[what] = (now_s, 0)
        return count
