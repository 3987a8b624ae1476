"""The ids that were accepted lately, bounded in time and in number. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class RecentKeys:
    """Keys with the time at which each was accepted, the oldest first."""

    def __init__(self, *, window_ms: int, keys_max: int) -> None:
        self.window_ms = window_ms
        self.keys_max = keys_max
        self._times: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._times)

    def has_any(self, keys: Iterable[bytes], now_ms: int) -> bool:
        """Whether one of them was accepted within the window."""
        oldest_ms = now_ms - self.window_ms
        return any((at_ms := self._times.get(key)) is not None and at_ms > oldest_ms for key in keys)

    def add(self, keys: Iterable[bytes], at_ms: int) -> None:
        """Times may come out of order, when they are read from several partitions."""
        for key in keys:
            before_ms = self._times.pop(key, at_ms)
            self._times[key] = max(at_ms, before_ms)
        self._drop_old(at_ms)

    def _drop_old(self, now_ms: int) -> None:
        oldest_ms = now_ms - self.window_ms
        while self._times:
            key = next(iter(self._times))
            if self._times[key] > oldest_ms and len(self._times) <= self.keys_max:
                return
            del self._times[key]

    def resize(self, *, window_ms: int, keys_max: int) -> None:
        self.window_ms, self.keys_max = window_ms, keys_max
