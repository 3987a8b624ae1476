"""Runs that a Python worker has seen lately, so that a bucket's state is not read again for every batch.

A run never changes and its name is never used again. So a copy can't be wrong, whatever became of the batch that made
it, and whichever worker does the next one; at worst it is not there, and is read from Spark's state.

What makes room is chosen by chance. A worker goes through its buckets in the same order batch by batch: if their state
is a little more than fits, to drop what was used longest ago would be to drop what is needed next, each time.
"""

from __future__ import annotations

import random

from headrace.operators.state.run import Run

CACHE_BYTES_MAX = 512 * 1024 * 1024
"""Of each worker. A window of a short key and a count takes about 115 bytes: some four and a half million of them."""


class RunCache:
    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._runs: dict[str, Run] = {}
        self._choose = random.Random(0)
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def get(self, name: str) -> Run | None:
        run = self._runs.get(name)
        if run is None:
            self.misses += 1
            return None
        self.hits += 1
        return run

    def put(self, run: Run) -> None:
        if run.name in self._runs or run.size_bytes > self._bytes_max:
            return
        while self.size_bytes + run.size_bytes > self._bytes_max:
            self.drop(self._choose.choice(list(self._runs)))
        self._runs[run.name] = run
        self.size_bytes += run.size_bytes

    def drop(self, name: str) -> None:
        run = self._runs.pop(name, None)
        if run is not None:
            self.size_bytes -= run.size_bytes


of_this_process = RunCache()
