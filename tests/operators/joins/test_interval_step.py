"""The step of joins of streams beside an oracle: any rows, late ones included, any split, state restored in between."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.operators.joins.interval_join import UnionLift
from headrace.operators.joins.interval_step import (
    LEFT,
    NO_TIME_US,
    RIGHT,
    UNMATCHABLE,
    IntervalRules,
    IntervalStep,
    Kept,
    ResultColumn,
)
from headrace.operators.state.bucket import work
from headrace.operators.state.cache import RunCache
from headrace.operators.state.run import Run
from headrace.operators.state.step import BEGINNING_US, END_US, StepTime, advance
from tests.operators.joins.oracles import IntervalOracle, SideRow
from tests.operators.state.stores import Store

KEYS = [pa.field("key", pa.string())]
SIDE = [pa.field("time", pa.int64()), pa.field("number", pa.int64())]
RESULTS = [
    ResultColumn(name="key", column="k0", of="either"),
    ResultColumn(name="time", column="l0", of="left"),
    ResultColumn(name="number", column="l1", of="left"),
    ResultColumn(name="time_right", column="r0", of="right"),
    ResultColumn(name="number_right", column="r1", of="right"),
]

Batch = tuple[list[SideRow], list[SideRow], float]
"""New rows of both sides, and the watermark."""


class Joining:
    """The step under test, with a bucket that can be restored from its bytes."""

    def __init__(self, rules: IntervalRules, *, hash_bits: int = 64) -> None:
        self.step = IntervalStep(rules=rules, keys=KEYS, left=SIDE, right=SIDE, results=RESULTS)
        self.lift = UnionLift(self.step.input_schema)
        self.table = self.step.table_of()
        self.late_rows = 0
        self._hash_bits = hash_bits

    def work(
        self, left: Sequence[SideRow], right: Sequence[SideRow], late: float, watermark: float
    ) -> list[tuple[Any, ...]]:
        time = StepTime(late_us=_us(late), watermark_us=_us(watermark), now_us=0)
        advanced = advance(self.step, self.table, self.incoming(left, right), time)
        self.table = advanced.table
        self.late_rows += advanced.result.late_rows
        return [tuple(row.values()) for row in advanced.result.output.to_pylist()]

    def incoming(self, left: Sequence[SideRow], right: Sequence[SideRow]) -> pa.Table:
        return self.lift(self._table_of(left, right))[0]

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = self.step.table_of(runs, self.table.expired_us)

    def rows_kept(self) -> int:
        return sum(row["kept"] != Kept.MARK for row in self.table.all_rows().to_pylist())

    def _table_of(self, left: Sequence[SideRow], right: Sequence[SideRow]) -> pa.Table:
        every = [*((LEFT, row) for row in left), *((RIGHT, row) for row in right)]
        unmatchable = [None in row[:2] for _, row in every]
        own = {
            (name, side): pa.array(
                [row[place] if side == which else None for which, row in every], pa.int64()
            )
            for side in (LEFT, RIGHT)
            for place, name in ((1, "time"), (2, "number"))
        }
        # With few bits of a hash, different keys have the same ids.
        short = [hash(row[0]) % 2**self._hash_bits for _, row in every]
        return pa.table(
            {
                "h1": pa.array(np.array(short, dtype=np.uint64).view(np.int64)),
                "h2": pa.array([hash(f"{row[0]}!") for _, row in every], pa.int64()),
                "side": pa.array(
                    [side + UNMATCHABLE * alone for (side, _), alone in zip(every, unmatchable, strict=True)],
                    pa.int8(),
                ),
                "time": pa.array([NO_TIME_US if row[1] is None else row[1] for _, row in every], pa.int64()),
                "k0": pa.array([row[0] for _, row in every], pa.string()),
                "l0": own["time", LEFT],
                "l1": own["number", LEFT],
                "r0": own["time", RIGHT],
                "r1": own["number", RIGHT],
            }
        )


def _us(watermark: float) -> int:
    return BEGINNING_US if watermark < 0 else int(watermark)


rules = st.builds(
    IntervalRules,
    low_us=st.sampled_from([-12, -3, 0, 1]),
    high_us=st.sampled_from([1, 4, 15]),
    emits_pairs=st.just(True),
    keeps=st.tuples(st.booleans(), st.booleans()),
) | st.builds(
    IntervalRules,
    low_us=st.sampled_from([0, 1]),
    high_us=st.sampled_from([1, 4, 15]),
    emits_pairs=st.just(False),
    keeps=st.just((True, False)),
)


def drawn_batches(seed: int, rules: IntervalRules) -> list[Batch]:
    """Some rows are late, some have no key or no time. The last batch is without any, and after all times.

    The numbers are drawn here, because hypothesis prefers examples that are in order.
    """
    drawn, watermark = random.Random(seed), -math.inf
    created = list[Batch]()
    for _ in range(drawn.randint(1, 25)):
        middle = max(watermark, 0)
        sides: tuple[list[SideRow], list[SideRow]] = ([], [])
        for side in (LEFT, RIGHT):
            for _ in range(drawn.randint(0, 5)):
                key = drawn.choice(["a", "a", "b", "c", None])
                time = None if drawn.random() < 0.1 else int(middle) + drawn.randint(-8, 25)
                # The others do not reach the step.
                if rules.keeps[side] or (key is not None and time is not None):
                    sides[side].append((key, time, drawn.randint(0, 3)))
        watermark = max(watermark, 0) + drawn.randint(0, 12) if drawn.random() < 0.7 else watermark
        created.append((sides[LEFT], sides[RIGHT], watermark))
    return [*created, ([], [], float(END_US))]


@settings(max_examples=300)
@given(st.integers(0, 2**32), rules, st.booleans(), st.sampled_from([64, 13]))
def test_join_matches_the_oracle_at_every_step(
    seed: int, rules: IntervalRules, restarts: bool, hash_bits: int
) -> None:
    oracle = IntervalOracle(
        low=rules.low_us, high=rules.high_us, emits_pairs=rules.emits_pairs, keeps=rules.keeps
    )
    joining = Joining(rules, hash_bits=hash_bits)
    late = -math.inf
    for left, right, watermark in drawn_batches(seed, rules):
        found = joining.work(left, right, late, watermark)
        assert Counter(found) == Counter(oracle.step(left, right, late, watermark))
        if restarts:
            joining.restart()
        if rules.emits_pairs:
            assert joining.rows_kept() == oracle.live(watermark)
        late = watermark
    assert joining.table.runs == ()
    assert joining.late_rows == oracle.late_rows


class Bucket:
    """The step in a bucket as Spark runs it: with rows or when its timer fires, on either of two workers."""

    def __init__(self, rules: IntervalRules) -> None:
        self._joining = Joining(rules)
        self.store = Store()
        self._workers = [RunCache(), RunCache()]

    def batch(
        self,
        left: Sequence[SideRow],
        right: Sequence[SideRow],
        late: float,
        watermark: float,
        *,
        attempts: int,
    ) -> list[tuple[Any, ...]]:
        """All attempts but the last fail."""
        found: list[tuple[Any, ...]] = []
        for worker in (self._workers * 2)[:attempts]:
            store = copy.deepcopy(self.store)
            incoming = self._joining.incoming(left, right)
            calls: list[int | None] = [None] if incoming.num_rows else []
            calls += [each for each in sorted(store.timers) if each * 1_000 <= watermark]
            found = []
            for fired_ms in calls:
                rows = incoming if fired_ms is None else incoming.slice(0, 0)
                found += self._work(store, rows, late, watermark, worker, fired_ms)
        self.store = store
        return found

    def _work(
        self,
        store: Store,
        rows: pa.Table,
        late: float,
        watermark: float,
        cache: RunCache,
        fired_ms: int | None,
    ) -> list[tuple[Any, ...]]:
        if fired_ms is not None and fired_ms not in store.timers:
            return []
        time = StepTime(late_us=_us(late), watermark_us=_us(watermark), now_us=0)
        advanced = work(
            self._joining.step, store, rows, time, buckets=4, cache=cache, bucket="a", fired_ms=fired_ms
        )
        if fired_ms is not None:
            store.timers.discard(fired_ms)
        return [tuple(row.values()) for row in advanced.result.output.to_pylist()]


@settings(max_examples=100)
@given(st.integers(0, 2**32), rules, st.data())
def test_bucket_emits_the_same_across_failures_and_moves(
    seed: int, rules: IntervalRules, data: st.DataObject
) -> None:
    batches = drawn_batches(seed, rules)
    rules = replace(rules, low_us=rules.low_us * 1_000, high_us=rules.high_us * 1_000)
    oracle = IntervalOracle(
        low=rules.low_us, high=rules.high_us, emits_pairs=rules.emits_pairs, keeps=rules.keeps
    )
    bucket, late = Bucket(rules), -math.inf
    for left, right, watermark_ms in batches:
        # Watermarks are whole milliseconds, and no row of a stream is before 1970.
        watermark = (watermark_ms + 20) * 1_000 if 0 <= watermark_ms < END_US else watermark_ms
        left, right = (
            [(key, None if time is None else (time + 20) * 1_000, number) for key, time, number in side]
            for side in (left, right)
        )
        attempts = data.draw(st.integers(1, 3))
        found = bucket.batch(left, right, late, watermark, attempts=attempts)
        assert Counter(found) == Counter(oracle.step(left, right, late, watermark))
        late = watermark
    assert (bucket.store.manifest, bucket.store.runs, bucket.store.timers) == (None, {}, set())


def test_row_is_emitted_once_if_the_lag_of_the_input_grows() -> None:
    """The watermark of the operator is then an earlier one than before."""
    joining = Joining(IntervalRules(low_us=-5, high_us=5, keeps=(True, False)))
    assert joining.work([("a", 10, 1)], [], 0, 20) == [("a", 10, 1, None, None)]
    assert joining.work([("b", 12, 2)], [], 0, 10) == []
    joining.restart()
    assert joining.work([], [("a", 11, 3)], 8, 10) == []
    assert joining.work([], [], 10, 40) == [("b", 12, 2, None, None)]


def test_first_match_of_a_stored_row_writes_a_small_row() -> None:
    joining = Joining(IntervalRules(low_us=-5, high_us=5, keeps=(True, False)))
    joining.work([("a", 10, number) for number in range(1_000)], [], 0, 0)
    (before,) = joining.table.runs
    joining.work([], [("a", 12, 1)], 0, 0)
    assert joining.table.runs[0] is before
    assert len(joining.table.runs[1]) == 1 + 1, "the new row, and one for all rows of its key and time"
