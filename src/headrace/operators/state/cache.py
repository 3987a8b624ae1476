"""A cache of runs in a Python worker, so that the state of a bucket is not read from Spark for every batch.

A run is immutable and its name is unique. A cached copy is therefore always valid, even if the batch that wrote it
failed or another worker runs the next one; a run that is not cached is read from Spark's state.

The next batch of a bucket may run on another worker, which merges runs that this worker has cached. The cache is
indexed by bucket, and drops such runs when it sees the bucket again.

Eviction is random. A worker processes its buckets in the same order in every batch: if their state is a little larger
than the cache, evicting the least recently used run would evict the one that is needed next, every time.
"""

from __future__ import annotations

import os
import random
from collections.abc import Hashable, Iterable

from headrace.operators.state.run import Run

MEMORY_SHARE = 1 / 4
"""The share of the machine's memory that all workers use together. A window with a short key and a count takes about 90
bytes, and up to as much again for replaced rows that are not merged yet."""

WORKERS_PER_CORE = 2
"""A task uses two workers, one for the state and one for the output, and either may get the other's work next."""


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
        """Drop the runs of this bucket that are not in `names`."""
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
