"""Which message of a target is sent next.

Messages of a key are in one lane of an ordered target, and the first one holds back the others until it is delivered or
a dead letter. Every other message has a lane of its own. A failed message waits for its next attempt.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable

from headrace.webhooks.outgoing.message import Outgoing

_Lane = tuple[str, int, bytes]
"""Topic, partition and key."""


class Lanes:
    def __init__(self, *, is_ordered: bool) -> None:
        self._is_ordered = is_ordered
        self._behind: dict[_Lane, deque[Outgoing]] = {}
        self._ready: deque[Outgoing] = deque()
        self._waiting: list[tuple[float, int, Outgoing]] = []
        self._numbers = itertools.count()

    @property
    def waiting(self) -> int:
        """Messages that wait for their next attempt."""
        return len(self._waiting)

    def add(self, message: Outgoing) -> None:
        lane = self._lane(message)
        if lane is not None:
            behind = self._behind.get(lane)
            if behind is not None:
                behind.append(message)
                return
            self._behind[lane] = deque()
        self._ready.append(message)

    def take(self, now_s: float) -> Outgoing | None:
        """The next message whose time has come; the caller calls `retry` or `leave` with it."""
        while self._waiting and self._waiting[0][0] <= now_s:
            self._ready.append(heapq.heappop(self._waiting)[2])
        while self._ready:
            message = self._ready.popleft()
            if not message.is_forgotten:
                return message
        return None

    def retry(self, message: Outgoing, due_s: float) -> None:
        if not message.is_forgotten:
            heapq.heappush(self._waiting, (due_s, next(self._numbers), message))

    def hasten(self, due_s: Callable[[], float]) -> None:
        """The target works again: no message waits longer than until a time that is chosen for each."""
        self._waiting = [(min(each, due_s()), number, message) for each, number, message in self._waiting]
        heapq.heapify(self._waiting)

    def leave(self, message: Outgoing) -> None:
        """It is delivered, or a dead letter: the next one of its key may go."""
        lane = self._lane(message)
        if lane is None or message.is_forgotten:
            return
        behind = self._behind[lane]
        if behind:
            self._ready.append(behind.popleft())
        else:
            del self._behind[lane]

    def forget(self, topic: str, partition: int) -> None:
        """Drop the messages of a partition whose `is_forgotten` is set."""
        for lane in [each for each in self._behind if each[:2] == (topic, partition)]:
            del self._behind[lane]
        self._ready = deque(each for each in self._ready if not each.is_forgotten)
        self._waiting = [each for each in self._waiting if not each[2].is_forgotten]
        heapq.heapify(self._waiting)

    def _lane(self, message: Outgoing) -> _Lane | None:
        if not self._is_ordered or message.key is None:
            return None
        return message.origin.topic, message.origin.partition, message.key
