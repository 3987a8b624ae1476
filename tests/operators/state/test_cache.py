"""The cache of runs: bounded, and without the runs that a bucket no longer has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.operators.state.cache import RunCache, bytes_max_by_default
from headrace.operators.state.run import Run, ids_column
from headrace.operators.state.table import state_schema

SCHEMA = state_schema([pa.field("number", pa.int64())])
NO_IDS = np.empty(0, dtype=np.complex128)


def run_of(count: int) -> Run:
    numbers = np.arange(count)
    rows = pa.table([ids_column(numbers.astype(np.complex128)), pa.array(numbers)], schema=SCHEMA)
    return Run.of(rows, NO_IDS)


def test_a_cached_run_is_found_until_it_is_dropped() -> None:
    cache, run = RunCache(), run_of(3)
    assert cache.get(run.name) is None
    cache.put(run, "bucket")
    cache.put(run, "bucket")
    assert cache.get(run.name) is run
    assert cache.size_bytes == run.size_bytes
    cache.drop(run.name)
    cache.drop(run.name)
    assert cache.get(run.name) is None
    assert cache.size_bytes == 0


def test_the_cache_stays_within_its_limit() -> None:
    one = run_of(10)
    cache = RunCache(bytes_max=one.size_bytes * 5)
    for number in range(20):
        cache.put(run_of(10), number % 3)
        assert cache.size_bytes <= cache.bytes_max
    assert cache.size_bytes == cache.bytes_max


def test_a_run_larger_than_the_cache_evicts_nothing() -> None:
    small, large = run_of(1), run_of(1_000)
    cache = RunCache(bytes_max=small.size_bytes * 2)
    cache.put(small, "bucket")
    cache.put(large, "bucket")
    assert cache.get(small.name) is small
    assert cache.get(large.name) is None


def test_retain_drops_the_other_runs_of_this_bucket_only() -> None:
    cache, runs = RunCache(), [run_of(2) for _ in range(3)]
    cache.put(runs[0], "one")
    cache.put(runs[1], "one")
    cache.put(runs[2], "other")
    cache.retain("one", [runs[1].name])
    assert [cache.get(run.name) is run for run in runs] == [False, True, True]
    cache.retain("one", [])
    cache.retain("unknown", [])
    assert [cache.get(run.name) is run for run in runs] == [False, False, True]


def test_the_default_limit_is_part_of_the_memory() -> None:
    assert RunCache().bytes_max == bytes_max_by_default() > 1_000_000
