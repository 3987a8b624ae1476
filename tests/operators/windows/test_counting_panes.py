"""The step of count windows beside an oracle: any order, any split into batches, state restored in between."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.step import advance
from headrace.operators.state.table import StateTable
from headrace.operators.windows.counting_panes import NO_WINDOW, CountingStep
from headrace.operators.windows.lifting import RowLift
from headrace.operators.windows.panes import PaneRules, PaneShape
from tests.operators.step_times import step_time
from tests.operators.windows.pane_oracle import CountingOracle, Row, Rules, results
from tests.operators.windows.stepping import FOLDS, KEYS, Stepped, batches, pane_rules, rules, table_of


def tie(row: Row) -> int:
    """Like a hash: it depends on the value only, and has another order."""
    return (7 if row[2] is None else row[2]) * 37 % 11


class Counted(Stepped):
    def __init__(self, rules: Rules, count: int, *, emits_rest: bool = False) -> None:
        step = CountingStep(
            PaneShape(keys=KEYS, folds=FOLDS, rules=pane_rules(rules)),
            window_rows=count,
            emits_rest=emits_rest,
        )
        super().__init__(step, RowLift(step, 0))

    def rows_in(self, rows: list[Row]) -> pa.Table:
        return table_of(rows, tie=pa.array([tie(row) for row in rows], pa.int64()))


@settings(max_examples=150)
@given(
    batches(),
    rules.filter(lambda each: each.panes == "retracting"),
    st.integers(1, 6),
    st.booleans(),
    st.booleans(),
)
def test_count_windows_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, count: int, restarts: bool, emits_rest: bool
) -> None:
    oracle = CountingOracle(rules, count, tie, emits_rest=emits_rest)
    windows = Counted(rules, count, emits_rest=emits_rest)
    for batch in batches:
        assert Counter(windows.work(*batch)) == Counter(oracle.step(*batch))
        if restarts:
            windows.restart()
    assert windows.late_rows == oracle.late_rows
    waiting: Counter[str] = Counter()
    for row in windows.table.all_rows().to_pylist():
        waiting[row["k0"]] += row["rows"] if row["window"] == NO_WINDOW else 0
    assert all(rows < count for rows in waiting.values()), "rows of expired windows are left"


@settings(max_examples=100)
@given(batches(), rules, st.integers(1, 6))
def test_corrected_results_equal_the_batch_result_for_any_order_and_split(
    batches: list[tuple[list[Row], float, int]], rules: Rules, count: int
) -> None:
    rules.within, rules.panes, rules.early_rows, rules.early = 10**6, "retracting", None, None
    windows = Counted(rules, count)
    current: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for row in windows.work(*batch):
            current[row[:-3]] += 1 if row[-1] == "+" else -1
        assert all(times >= 0 for times in current.values()), "retracted a row that was never emitted"
    every_row = [row for rows, _, _ in batches for row in rows]
    assert +current == Counter(counted(every_row, count))
    at_once = Counted(Rules(), count)
    at_once.work(every_row, -math.inf, 0)
    assert Counter(row[:-3] for row in at_once.work([], batches[-1][1], 0)) == +current


def counted(rows: list[Row], count: int) -> list[tuple[Any, ...]]:
    found = []
    for key in {row[0] for row in rows}:
        of_key = sorted((row for row in rows if row[0] == key), key=lambda row: (row[1], tie(row)))
        for first in range(0, len(of_key) - count + 1, count):
            inside = of_key[first : first + count]
            found.append((key, inside[0][1], inside[-1][1], *results(inside)))
    return found


def test_a_late_row_shifts_later_rows_into_the_next_windows() -> None:
    windows = Counted(Rules(within=10**6), 2)
    windows.work([("a", time, time) for time in (0, 10, 20, 30, 40)], -math.inf, 1)
    assert [row[1:3] for row in windows.work([], 50, 2)] == [(0, 10), (20, 30)]
    after = windows.work([("a", 15, 15)], 50, 3)
    assert [(row[-1], row[-3], *row[1:3]) for row in after] == [
        ("-", "on time", 20, 30),
        ("+", "late", 15, 20),
        ("+", "on time", 30, 40),
    ]


def test_dropped_late_rows_are_returned_complete() -> None:
    rules = PaneRules(keeps_late=True)
    step = CountingStep(PaneShape(keys=KEYS, folds=FOLDS, rules=rules), window_rows=2)
    lift = RowLift(step, 0)
    rows: list[Row] = [("a", 5, 1), ("b", 20, 2), ("b", 30, 3)]
    texts = pa.array([f"row at {row[1]}" for row in rows], pa.string())
    table = table_of(rows, **{f"a{len(FOLDS)}": texts, "tie": pa.array([0, 0, 0], pa.int64())})
    first = advance(step, StateTable(step.state_schema), lift(table)[0], step_time(10, 1))
    assert (first.result.rows_in, first.result.corrected_rows, first.result.late_rows) == (3, 0, 1)
    assert first.result.late is not None
    assert first.result.late.column("original").to_pylist() == ["row at 5"]
    after = advance(step, first.table, step.input_schema.empty_table(), step_time(31, 2))
    assert [row["n"] for row in after.result.output.to_pylist()] == [2]


def test_final_rows_of_an_incomplete_window_are_merged_in_the_state() -> None:
    windows = Counted(Rules(), 1_000)
    for time in range(100):
        windows.work([("a", time, 1)], time, time)
    assert windows.table.all_rows().num_rows <= 2
