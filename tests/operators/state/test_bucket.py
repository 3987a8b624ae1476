"""A bucket in a store, as Spark uses it: batches fail and are retried, on any worker, or run by timers alone."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.operators.state.bucket import work
from headrace.operators.state.cache import RunCache
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.run import Run
from headrace.operators.state.step import StepTime
from headrace.operators.windows.lifting import ClockSlots
from tests.operators.state.stores import Store
from tests.operators.step_times import step_time
from tests.operators.windows.pane_oracle import Row, Rules
from tests.operators.windows.stepping import Windows, as_tuple, batches, table_of

MILLISECOND = 1_000
SLOTS = ClockSlots(length_us=10 * MILLISECOND, every_us=10 * MILLISECOND)


class Spark:
    """Calls a bucket when it has rows or when its timer fires; drops the writes of a failed batch."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self.store = Store()

    def rows(self, rows: list[Row]) -> pa.Table:
        return self._windows.lift(table_of(rows))[0]

    def batch(self, rows: pa.Table, time: StepTime, workers: list[RunCache]) -> list[tuple[Any, ...]]:
        """The batch runs once on each worker in turn; all but the last attempt fail."""
        done: list[tuple[Any, ...]] = []
        for worker in workers:
            store = copy.deepcopy(self.store)
            done = self._attempt(store, rows, time, worker)
        self.store = store
        return done

    def _attempt(
        self, store: Store, rows: pa.Table, time: StepTime, cache: RunCache
    ) -> list[tuple[Any, ...]]:
        watermark_ms = max(time.watermark_us, 0) // MILLISECOND
        output = []
        if rows.num_rows:
            output += self._work(store, rows, time, cache, None)
        for timer in sorted(each for each in store.timers if each <= watermark_ms):
            output += self._work(store, rows.slice(0, 0), time, cache, timer)
            store.timers.discard(timer)
        return output

    def _work(
        self, store: Store, rows: pa.Table, time: StepTime, cache: RunCache, fired_ms: int | None
    ) -> list[tuple[Any, ...]]:
        step = self._windows.step
        advanced = work(step, store, rows, time, buckets=4, cache=cache, bucket="a", fired_ms=fired_ms)
        return [as_tuple(row) for row in advanced.result.output.to_pylist()]


@settings(max_examples=60)
@given(
    batches(),
    st.sampled_from([0, 5_000, 10**9]),
    st.sampled_from([(2, None, 0), (None, 5, 0), (3, 1, 7)]),
    st.data(),
)
def test_a_bucket_emits_the_same_across_failures_and_moves(
    batches: list[tuple[list[Row], float, int]],
    within: int,
    when: tuple[int | None, int | None, int],
    data: st.DataObject,
) -> None:
    """With a trigger in processing time, a bucket emits in the next batch, also without rows of its own."""
    early_rows, early, late = when
    rules = Rules(within=within, early_rows=early_rows, early=early, late=late)
    direct, spark = Windows(rules, slots=SLOTS), Spark(Windows(rules, slots=SLOTS))
    workers = [RunCache(), RunCache(), RunCache(bytes_max=1_000)]
    for rows, watermark, now in batches:
        rows = [(key, time * MILLISECOND, value) for key, time, value in rows]
        watermark = watermark * MILLISECOND if watermark < 1e9 else watermark
        tries = data.draw(st.lists(st.sampled_from(workers), min_size=1, max_size=3))
        is_there = watermark > 0
        time = step_time(watermark if is_there else -1, now)
        expected = direct.work(rows, watermark if is_there else -math.inf, now)
        slots = direct.lift(table_of(rows))[0]
        assert Counter(spark.batch(slots, time, tries)) == Counter(expected)
        runs = direct.table.runs
        assert sorted(len(Run.decode(each, name="")) for each in spark.store.runs.values()) == sorted(
            len(each) for each in runs
        ), "runs are left in the store, or are missing"
    assert (spark.store.manifest, spark.store.runs, spark.store.timers) == (None, {}, set())


def test_a_worker_drops_runs_that_another_worker_merged() -> None:
    spark = Spark(Windows(Rules(within=10**9, early_rows=1), slots=SLOTS))
    workers = [RunCache(), RunCache()]
    ever: set[str] = set()
    for number in range(40):
        worker = workers[number % 2]
        rows = spark.rows([("abc"[number % 3], 1 + number % 7, number)])
        spark.batch(rows, step_time(-1, number), [worker])
        ever |= set(spark.store.runs)
        assert {name for name in ever if worker.get(name)} == set(spark.store.runs)
    assert len(ever) > len(spark.store.runs)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (Manifest(version=1, buckets=8).to_json(), "8 buckets"),
        (Manifest(version=99, buckets=4).to_json(), "version 99"),
        (Manifest(version=1, buckets=4, runs=("lost",)).to_json(), "missing"),
        ('{"format":2}', "format 2"),
        ("gibberish", "not a state of Headrace"),
    ],
)
def test_state_that_does_not_fit_is_rejected(manifest: str, problem: str) -> None:
    windows = Windows(Rules(), slots=SLOTS)
    store = Store()
    store.manifest = manifest
    rows = windows.lift(table_of([("a", 1, 1)]))[0]
    time = step_time(-1, 1)
    with pytest.raises(HeadraceError, match=problem) as rejected:
        work(windows.step, store, rows, time, buckets=4, cache=RunCache(), bucket="a")
    assert rejected.value.hint
