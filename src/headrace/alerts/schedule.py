"""What is due when: a heap in which each name has one time."""

from __future__ import annotations

import heapq


class Schedule:
    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._due_ms: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, name: str, due_ms: int | None) -> None:
        """The time of the name from now on; None: it has none."""
        if due_ms is None:
            self._due_ms.pop(name, None)
        elif self._due_ms.get(name) != due_ms:
            self._due_ms[name] = due_ms
            heapq.heappush(self._heap, (due_ms, name))
            if len(self._heap) > 2 * len(self._due_ms) + 1_000:
                self._compact()

    def due_ms(self, name: str) -> int | None:
        return self._due_ms.get(name)

    def take_due(self, now_ms: int, limit: int) -> list[str]:
        """The names that are due, the earliest first. They have no time afterwards."""
        taken: list[str] = []
        while self._heap and self._heap[0][0] <= now_ms and len(taken) < limit:
            due_ms, name = heapq.heappop(self._heap)
            if self._due_ms.get(name) == due_ms:
                del self._due_ms[name]
                taken.append(name)
        return taken

    def _compact(self) -> None:
        """Without the entries whose time has changed since."""
        self._heap = [(due_ms, name) for name, due_ms in self._due_ms.items()]
        heapq.heapify(self._heap)
