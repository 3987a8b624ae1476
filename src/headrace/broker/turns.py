"""Long requests: their items are processed one by one, and other requests are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

TURN_S = 0.01
"""How long a request may block all others: short compared to a disk, long compared to a task switch."""


Steps = Generator[None, None, ResultT]
"""Work that may pause at each `yield`, and returns a result."""


def run_to_end(steps: Steps[ResultT]) -> ResultT:
    """Run all steps without a pause, for little work, or if no request waits."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: ResultT = done.value
            return result


class Turns:
    """Lets other requests run between two items if the work has taken long."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ends_s = self._loop.time() + TURN_S

    async def run(self, steps: Steps[ResultT]) -> ResultT:
        """What the steps return when they are done."""
        while True:
            try:
                next(steps)
            except StopIteration as done:
                result: ResultT = done.value
                return result
            await self.next()

    async def next(self) -> None:
        if self._loop.time() >= self._ends_s:
            await asyncio.sleep(0)
            self._ends_s = self._loop.time() + TURN_S


async def in_turns(items: Iterable[ItemT], work: Callable[[ItemT], ResultT]) -> list[ResultT]:
    """The results of `work` for all items, in their order.

    Anything may happen between two items: `work` looks at the state of the broker when it is called. The handler is
    registered with `is_long`, so that later requests of the same connection see what this one has done.
    """
    turns = Turns()
    results = []
    for item in items:
        results.append(work(item))
        await turns.next()
    return results
