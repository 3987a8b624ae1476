"""Whether a target works: since when it fails, and when that is long enough to pause it."""

from __future__ import annotations

from msgspec import Struct


class Health(Struct, frozen=True, kw_only=True):
    """Failures count by the time since the first one, not by their number: a busy target fails often in a minute."""

    failing_since_ms: int | None = None
    """The first failure since the last success; None: the last attempt of all was a success, or there was none."""
    last_success_ms: int | None = None

    def succeeded(self, now_ms: int) -> Health:
        return Health(failing_since_ms=None, last_success_ms=now_ms)

    def failed(self, now_ms: int) -> Health:
        since_ms = now_ms if self.failing_since_ms is None else self.failing_since_ms
        return Health(failing_since_ms=since_ms, last_success_ms=self.last_success_ms)

    def failing_ms(self, now_ms: int) -> int:
        return 0 if self.failing_since_ms is None else now_ms - self.failing_since_ms

    def resumed(self) -> Health:
        """After a pause, the time of failure starts again."""
        return Health(failing_since_ms=None, last_success_ms=self.last_success_ms)
