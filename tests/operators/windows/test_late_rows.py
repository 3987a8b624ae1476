"""Late rows that are kept: exactly those that were late, one for each window that they were too late for."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace import operators as op
from headrace.operators.folds import CollectFold, CountFold, Fold, OriginalsFold
from headrace.operators.state.step import BEGINNING_US, Counts, Lift, StepTime, advance
from headrace.operators.state.table import StateTable
from headrace.operators.windows.lifting import ClockLift, GapLift, InstantLift
from headrace.operators.windows.panes import PaneRules, PaneStep
from headrace.operators.windows.sliding_panes import SlidingStep
from headrace.operators.windows.slots import ClockSlots
from tests.operators.windows.pane_oracle import Row, clock
from tests.operators.windows.stepping import batches, table_of

FOLDS: list[tuple[str, Fold]] = [("n", CountFold()), ("all", CollectFold(pa.int64(), count_max=9))]
KEYS = [pa.field("key", pa.string())]
LENGTH, EVERY, GAP = 10, 5, 8

Late = tuple[str, int, int, int]
"""A row, the bounds of a window, and the watermark when it came."""


def windows_of(kind: str, time: int) -> list[tuple[int, int, int]]:
    """Start and end as shown, and the time at which the window is over."""
    if kind == "hopping":
        return [(start, end, end) for start, end in clock(LENGTH, EVERY)(time)]
    if kind == "session":
        return [(time, time + GAP, time + GAP)]
    return [(time - LENGTH, time, time + 1)]


def step_of(kind: str, rules: PaneRules) -> tuple[PaneStep, Lift]:
    folds = [*(fold for _, fold in FOLDS), OriginalsFold()]
    if kind == "hopping":
        step = PaneStep(keys=KEYS, folds=FOLDS, rules=rules)
        return step, ClockLift(ClockSlots(length_us=LENGTH, every_us=EVERY), folds, step.input_schema)
    if kind == "session":
        step = PaneStep(keys=KEYS, folds=FOLDS, rules=rules, merges_overlaps=True)
        return step, GapLift(GAP, folds, step.input_schema)
    step = SlidingStep(keys=KEYS, folds=FOLDS, rules=rules, length_us=LENGTH)
    return step, InstantLift(LENGTH, folds, step.input_schema)


def rows_table(rows: list[Row], names: list[str]) -> pa.Table:
    """As Spark hands them over: the values of both folds, and the row itself."""
    table = table_of(rows)
    columns = [name for name in table.column_names if not (name[0] == "a" and name[1:].isdigit())]
    values = pa.array([row[2] for row in rows], pa.int64())
    kept = table.select(columns).append_column("a1", values)
    return kept.append_column("a2", pa.array(names, pa.string()))


@pytest.mark.parametrize("kind", ["hopping", "session", "sliding"])
@settings(max_examples=60)
@given(batches(), st.sampled_from([0, 5, 40]))
def test_the_late_rows_are_returned_exactly(
    kind: str, batches: list[tuple[list[Row], float, int]], within: int
) -> None:
    step, lift = step_of(kind, PaneRules(within_us=within, keeps_late=True))
    table = StateTable(step.state_schema)
    for number, (rows, watermark, now) in enumerate(batches):
        names = [f"{number}-{position}" for position in range(len(rows))]
        expected: Counter[Late] = Counter(
            (name, start, end, int(watermark))
            for name, row in zip(names, rows, strict=True)
            for start, end, over in windows_of(kind, row[1])
            if over + within <= watermark
        )
        behind = sum(over <= watermark for row in rows for _, _, over in windows_of(kind, row[1]))
        at = StepTime(watermark_us=BEGINNING_US if watermark == -math.inf else int(watermark), now_us=now)
        done = advance(step, table, lift(rows_table(rows, names))[0], at)
        table = done.table
        kept = [] if done.late is None else done.late.to_pylist()
        assert Counter(map(late, kept)) == expected
        pairs = sum(len(windows_of(kind, row[1])) for row in rows)
        assert done.counts == Counts(rows_in=pairs, corrected=behind - len(kept), late=len(kept))
        assert "originals" not in table.schema.names


def late(row: dict[str, Any]) -> Late:
    start, end, watermark = (
        row[name].timestamp() * 1e6 for name in ("window_start", "window_end", "watermark")
    )
    return row["original"], round(start), round(end), round(watermark)


@pytest.mark.parametrize("topic", ["a b", "..", "x" * 250, None, "a/b"])
def test_a_side_output_needs_a_valid_topic(topic: Any) -> None:
    with pytest.raises(op.BadOperator, match="SideOutput: topic") as refused:
        op.SideOutput(topic)
    assert refused.value.hint
