"""Steps of windows under test: rows as Spark hands them over, results as the oracles say them.

What a test of theirs draws: batches of rows with a watermark and a clock, and rules for panes.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, get_args

import pyarrow as pa
from hypothesis import strategies as st

from headrace.operators.folds import CollectFold, CountFold, EdgeFold, ExtremeFold, Fold, SumFold
from headrace.operators.state.run import Run
from headrace.operators.state.step import BEGINNING_US, END_US, Lift, Step, StepTime, advance
from headrace.operators.state.table import StateTable
from headrace.operators.triggers import Panes
from headrace.operators.windows.lifting import ClockLift, GapLift, InstantLift
from headrace.operators.windows.panes import PaneRules, PaneStep
from headrace.operators.windows.sliding_panes import SlidingStep
from headrace.operators.windows.slots import ClockSlots
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
    """Rows, the watermark and the clock of each; the last is without rows, and after all times."""
    watermark, now, made = -math.inf, 1, []
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.none() | st.integers(0, 25))
        if step is not None:
            watermark = max(watermark, 0) + step
        now += draw(st.integers(0, 12))
        made.append((draw(rows), watermark, now))
    return [*made, ([], float(END_US), now + 100)]


rules = st.builds(
    Rules,
    within=st.sampled_from([0, 5, 40, 10**6]),
    early_rows=st.none() | st.integers(1, 4),
    early=st.none() | st.integers(1, 20),
    late=st.sampled_from([0, 0, 7]),
    panes=st.sampled_from(get_args(Panes)),
)


def pane_rules(rules: Rules) -> PaneRules:
    return PaneRules(
        within_us=rules.within,
        early_rows=rules.early_rows,
        early_us=rules.early,
        late_us=rules.late,
        panes=rules.panes,
    )


class Stepped:
    """A step under test, with a bucket that may forget everything but its bytes."""

    def __init__(self, step: Step, lift: Lift) -> None:
        self.step = step
        self.lift = lift
        self.table = StateTable(self.step.state_schema)
        self.late_rows = 0

    def work(self, rows: list[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        return [said(row) for row in self.work_to_rows(rows, watermark, now)]

    def work_to_rows(self, rows: list[Row], watermark: float, now: int) -> list[dict[str, Any]]:
        time = StepTime(watermark_us=BEGINNING_US if watermark < 0 else int(watermark), now_us=now)
        advanced = advance(self.step, self.table, self.lift(self.rows_in(rows))[0], time)
        self.table = advanced.table
        self.late_rows += advanced.late_rows
        return list(advanced.output.to_pylist())

    def rows_in(self, rows: list[Row]) -> pa.Table:
        return table_of(rows)

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self.step.state_schema, runs)


def require_agreement(
    windows: Stepped, oracle: Any, batches: list[tuple[list[Row], float, int]], *, restarts: bool
) -> None:
    """At every step, in what was late, and in that nothing is kept of what is over."""
    for batch in batches:
        assert Counter(windows.work(*batch)) == Counter(oracle.step(*batch))
        if restarts:
            windows.restart()
    assert windows.late_rows == oracle.late_rows
    assert windows.table.all_rows().num_rows == 0, "state of what is over stays behind"


class Windows(Stepped):
    """Those that there is a pane step for."""

    def __init__(
        self,
        rules: Rules,
        *,
        slots: ClockSlots | None = None,
        gap: int | None = None,
        sliding: int | None = None,
        named_folds: list[tuple[str, Fold]] = FOLDS,
    ) -> None:
        folds = [fold for _, fold in named_folds]
        step = PaneStep(
            keys=KEYS, folds=named_folds, rules=pane_rules(rules), merges_overlaps=gap is not None
        )
        lift: Lift
        if slots is not None:
            lift = ClockLift(slots, folds, step.input_schema)
        elif gap is not None:
            lift = GapLift(gap, folds, step.input_schema)
        else:
            assert sliding is not None
            step = SlidingStep(keys=KEYS, folds=named_folds, rules=pane_rules(rules), length_us=sliding)
            lift = InstantLift(sliding, folds, step.input_schema)
        super().__init__(step, lift)


def table_of(rows: list[Row], **more: pa.Array) -> pa.Table:
    """As Spark hands rows over, with the columns that some lifts need. Any hash does that tells the keys apart."""
    values = pa.array([row[2] for row in rows], NUMBER)
    columns = {
        "h1": pa.array([hash(row[0]) for row in rows], pa.int64()),
        "h2": pa.array([hash(row[0] + "!") for row in rows], pa.int64()),
        "time": pa.array([row[1] for row in rows], pa.int64()),
        "k0": pa.array([row[0] for row in rows], pa.string()),
    }
    return pa.table({**columns, **{f"a{number}": values for number in range(1, len(FOLDS))}, **more})


def said(row: dict[str, Any]) -> tuple[Any, ...]:
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
