"""Runs that a Python worker has seen lately, so that a bucket's state is not read again for every batch.

A run never changes and its name is never used again. So a copy can't be wrong, whatever became of the batch that made
it, and whichever worker does the next one; at worst it is not there, and is read from Spark's state.
"""

from __future__ import annotations

from collections import OrderedDict

from headrace.operators.state.run import Run

CACHE_BYTES_MAX = 512 * 1024 * 1024
"""Of each worker. A window of a short key and a count takes about 115 bytes: some four and a half million of them."""


class RunCache:
    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, name: str) -> Run | None:
        run = self._runs.get(name)
        if run is None:
            self.misses += 1
            return None
        self.hits += 1
        self._runs.move_to_end(name)
        return run

    def put(self, run: Run) -> None:
        if run.name in self._runs or run.size_bytes > self._bytes_max:
            return
        self._runs[run.name] = run
        self.size_bytes += run.size_bytes
        while self.size_bytes > self._bytes_max:
            _, oldest = self._runs.popitem(last=False)
            self.size_bytes -= oldest.size_bytes

    def drop(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self.size_bytes -= run.size_bytes


of_this_process = RunCache()
