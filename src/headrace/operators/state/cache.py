"""Runs that a Python worker has seen lately, so that a bucket's state is not read again for every batch.

A run never changes and its name is never used again. So a copy can't be wrong, whatever became of the batch that made
it, and whichever worker does the next one; at worst it is not there, and is read from Spark's state.

A bucket's next batch may be another worker's, which makes other runs of those that this one has. So they are kept by
bucket, and what is no longer of it goes when the bucket is seen again.

What makes room is chosen by chance. A worker goes through its buckets in the same order batch by batch: if their state
is a little more than fits, to drop what was used longest ago would be to drop what is needed next, each time.
"""

from __future__ import annotations

import os
import random
from collections.abc import Hashable, Iterable

from headrace.operators.state.run import Run

MEMORY_SHARE = 1 / 4
"""Of the machine's memory, for the runs of all workers together. A window of a short key and a count takes about 90
bytes, and as much again may have been replaced and not merged yet."""

WORKERS_PER_CORE = 2
"""A task has two at work, for the state and for what comes out of it, and either may do the other's work next."""


def bytes_max_by_default() -> int:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(memory_bytes * MEMORY_SHARE / WORKERS_PER_CORE / (os.cpu_count() or 1))


class RunCache:
    def __init__(self, bytes_max: int | None = None) -> None:
        self.bytes_max = bytes_max_by_default() if bytes_max is None else bytes_max
        self._runs: dict[str, tuple[Run, Hashable]] = {}
        self._names: dict[Hashable, set[str]] = {}
        self._choose = random.Random(0)
        self.size_bytes = 0

    def get(self, name: str) -> Run | None:
        kept = self._runs.get(name)
        return None if kept is None else kept[0]

    def retain(self, bucket: Hashable, names: Iterable[str]) -> None:
        """Of this bucket's runs, only these are still its state."""
        for name in self._names.get(bucket, set()).difference(names):
            self.drop(name)

    def put(self, run: Run, bucket: Hashable) -> None:
        if run.name in self._runs or run.size_bytes > self.bytes_max:
            return
        while self.size_bytes + run.size_bytes > self.bytes_max:
            self.drop(self._choose.choice(list(self._runs)))
        self._runs[run.name] = run, bucket
        self._names.setdefault(bucket, set()).add(run.name)
        self.size_bytes += run.size_bytes

    def drop(self, name: str) -> None:
        if name not in self._runs:
            return
        run, bucket = self._runs.pop(name)
        self.size_bytes -= run.size_bytes
        self._names[bucket].remove(name)
        if not self._names[bucket]:
            del self._names[bucket]


of_this_process = RunCache()
