"""Steps of windows under test: input rows of the lifts, and results as the oracles return them.

Also strategies for their tests: batches of rows with a watermark and a processing time, and rules for panes.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta
from typing import Any, get_args

import pyarrow as pa
from hypothesis import strategies as st

from headrace.operators.folds import CollectFold, CountFold, EdgeFold, ExtremeFold, Fold, SumFold
from headrace.operators.state.run import Run
from headrace.operators.state.step import BEGINNING_US, END_US, Lift, Step, advance
from headrace.operators.state.table import StateTable
from headrace.operators.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterDelay,
    AfterEach,
    Panes,
    Repeatedly,
    firing_of,
)
from headrace.operators.windows.lifting import ClockLift, ClockSlots, InstantLift, SessionLift
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from headrace.operators.windows.sliding_panes import SlidingStep
from tests.operators.step_times import step_time
from tests.operators.windows.pane_oracle import Row, Rules

NUMBER = pa.int64()
FOLDS: list[tuple[str, Fold]] = [
    ("n", CountFold()),
    ("total", SumFold(NUMBER)),
    ("least", ExtremeFold(NUMBER, greatest=False)),
    ("most", ExtremeFold(NUMBER, greatest=True)),
    ("first", EdgeFold(NUMBER, last=False)),
    ("last", EdgeFold(NUMBER, last=True)),
    ("all", CollectFold(NUMBER, count_max=1000)),
]
KEYS = [pa.field("key", pa.string())]

rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(0, 60), st.none() | st.integers(-3, 3)), max_size=12
)


@st.composite
def batches(draw: st.DrawFn) -> list[tuple[list[Row], float, int]]:
    """Rows, watermark and processing time of each; the last has no rows and the final watermark."""
    watermark, now, created = -math.inf, 1, []
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.none() | st.integers(0, 25))
        if step is not None:
            watermark = max(watermark, 0) + step
        now += draw(st.integers(0, 12))
        created.append((draw(rows), watermark, now))
    return [*created, ([], float(END_US), now + 100)]


rules = st.builds(
    Rules,
    within=st.sampled_from([0, 5, 40, 10**6]),
    early_rows=st.none() | st.integers(1, 4),
    early=st.none() | st.integers(1, 20),
    late=st.sampled_from([0, 0, 7]),
    panes=st.sampled_from(get_args(Panes)),
)


conditions = st.recursive(
    st.builds(AfterCount, st.integers(1, 5))
    | st.builds(AfterDelay, st.builds(timedelta, microseconds=st.integers(1, 20))),
    lambda inner: (
        st.lists(inner, min_size=2, max_size=3).map(lambda each: AfterAny(*each))
        | st.lists(inner, min_size=2, max_size=3).map(lambda each: AfterAll(*each))
    ),
    max_leaves=4,
)
sequences = (
    st.lists(conditions, min_size=1, max_size=3).map(lambda each: AfterEach(*each))
    | st.lists(conditions, min_size=1, max_size=3).map(lambda each: Repeatedly(AfterEach(*each)))
    | st.lists(conditions, min_size=1, max_size=3).map(
        lambda each: AfterEach(*each[:-1], Repeatedly(each[-1]))
    )
)
composed_rules = st.builds(
    Rules,
    within=st.sampled_from([0, 5, 40, 10**6]),
    early_when=st.none() | conditions | sequences,
    late_when=st.none() | conditions | sequences,
    on_time=st.booleans(),
    panes=st.sampled_from(get_args(Panes)),
)
"""Triggers as Beam composes them."""


def pane_rules(rules: Rules) -> PaneRules:
    early = rules.early_pane
    return PaneRules(
        within_us=rules.within,
        early=None if early is None else firing_of(early, operator="", field=""),
        on_time=rules.on_time,
        late=firing_of(rules.late_pane, operator="", field=""),
        panes=rules.panes,
    )


class Stepped:
    """A step under test, with a bucket that can be restored from its bytes."""

    def __init__(self, step: Step, lift: Lift) -> None:
        self.step = step
        self.lift = lift
        self.watermark_us = BEGINNING_US
        """Of the running batch."""
        self.table = StateTable(self.step.state_schema)
        self.late_rows = 0

    def work(self, rows: list[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        return [as_tuple(row) for row in self.work_to_rows(rows, watermark, now)]

    def work_to_rows(self, rows: list[Row], watermark: float, now: int) -> list[dict[str, Any]]:
        time = step_time(watermark, now)
        self.watermark_us = time.watermark_us
        advanced = advance(self.step, self.table, self.lift(self.rows_in(rows))[0], time)
        self.table = advanced.table
        self.late_rows += advanced.result.late_rows
        return list(advanced.result.output.to_pylist())

    def rows_in(self, rows: list[Row]) -> pa.Table:
        return table_of(rows)

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self.step.state_schema, runs)


def require_agreement(
    windows: Stepped, oracle: Any, batches: list[tuple[list[Row], float, int]], *, restarts: bool
) -> None:
    """Equal output at every step, equal counts of late rows, and no state of expired windows."""
    for batch in batches:
        assert Counter(windows.work(*batch)) == Counter(oracle.step(*batch))
        if restarts:
            windows.restart()
    assert windows.late_rows == oracle.late_rows
    assert windows.table.all_rows().num_rows == 0, "state of expired windows is left"


class Windows(Stepped):
    """Windows with a pane step."""

    def __init__(
        self,
        rules: Rules,
        *,
        slots: ClockSlots | None = None,
        gap: int | None = None,
        sliding: int | None = None,
        named_folds: list[tuple[str, Fold]] = FOLDS,
    ) -> None:
        shape = PaneShape(keys=KEYS, folds=named_folds, rules=pane_rules(rules))
        step = PaneStep(shape, merges_overlaps=gap is not None)
        lift: Lift
        if slots is not None:
            lift = ClockLift(step, slots)
        elif gap is not None:
            lift = SessionLift(step, gap, lambda: self.watermark_us)
        else:
            assert sliding is not None
            step = SlidingStep(shape, length_us=sliding)
            lift = InstantLift(step, sliding)
        super().__init__(step, lift)


def table_of(rows: list[Row], **more: pa.Array) -> pa.Table:
    """The input rows of lifts, with the columns that some need. Any hash that distinguishes the keys will do."""
    values = pa.array([row[2] for row in rows], NUMBER)
    columns = {
        "h1": pa.array([hash(row[0]) for row in rows], pa.int64()),
        "h2": pa.array([hash(row[0] + "!") for row in rows], pa.int64()),
        "time": pa.array([row[1] for row in rows], pa.int64()),
        "k0": pa.array([row[0] for row in rows], pa.string()),
    }
    return pa.table({**columns, **{f"a{number}": values for number in range(1, len(FOLDS))}, **more})


def as_tuple(row: dict[str, Any]) -> tuple[Any, ...]:
    values = [row[name] for name, _ in FOLDS[:-1]]
    return (
        row["key"],
        as_us(row["window_start"]),
        as_us(row["window_end"]),
        *values,
        tuple(row["all"]),
        row["pane"],
        row["revision"],
        row["op"],
    )


def as_us(time: Any) -> int:
    return int(pa.scalar(time, pa.timestamp("us", tz="UTC")).value)
