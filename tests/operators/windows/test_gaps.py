"""Sessions with a gap per row: beside an oracle, and on Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.operators.windows.lifting import SessionLift
from headrace.operators.windows.panes import PaneShape, PaneStep
from tests.operators.streams import EventRow, Stream, bounded, since_epoch
from tests.operators.windows.pane_oracle import Oracle, Row, Rules, results
from tests.operators.windows.stepping import (
    FOLDS,
    KEYS,
    Stepped,
    batches,
    pane_rules,
    require_agreement,
    rules,
    table_of,
)


def gap(row: Row) -> int:
    return 2 + 4 * abs(row[2] or 0)


class OwnGaps(Stepped):
    def __init__(self, rules: Rules) -> None:
        step = PaneStep(PaneShape(keys=KEYS, folds=FOLDS, rules=pane_rules(rules)), merges_overlaps=True)
        super().__init__(step, SessionLift(step, None, lambda: self.watermark_us))

    def rows_in(self, rows: list[Row]) -> pa.Table:
        return table_of(rows, gap=pa.array([gap(row) for row in rows], pa.int64()))


@settings(max_examples=100)
@given(batches(), rules.filter(lambda each: each.panes == "retracting"), st.booleans())
def test_sessions_with_gaps_per_row_match_the_oracle_at_every_step(
    batches: list[tuple[list[Row], float, int]], rules: Rules, restarts: bool
) -> None:
    oracle, windows = Oracle(rules, gap=gap), OwnGaps(rules)
    require_agreement(windows, oracle, batches, restarts=restarts)


@settings(max_examples=60)
@given(batches(), rules)
def test_corrected_results_equal_the_batch_result_for_any_order_and_split(
    batches: list[tuple[list[Row], float, int]], rules: Rules
) -> None:
    rules.within, rules.panes = 10**6, "retracting"
    windows = OwnGaps(rules)
    current: Counter[tuple[Any, ...]] = Counter()
    for batch in batches:
        for row in windows.work(*batch):
            current[row[:-3]] += 1 if row[-1] == "+" else -1
    assert +current == Counter(sessions([row for rows, _, _ in batches for row in rows]))


def sessions(rows: list[Row]) -> list[tuple[Any, ...]]:
    found = []
    for key in {row[0] for row in rows}:
        session: list[Row] = []
        until = 0
        for row in [*sorted((each for each in rows if each[0] == key), key=lambda each: each[1]), None]:
            if row is None or (session and row[1] >= until):
                found.append((key, session[0][1], until, *results(session)))
                session = []
            if row is not None:
                until = max(until, row[1] + gap(row)) if session else row[1] + gap(row)
                session.append(row)
    return found


GAP = op.PerRow("CASE WHEN ms < 100 THEN ms * INTERVAL 1 SECOND END")
ROWS: list[EventRow] = [
    ("ann", 0, 60),
    ("ann", 50, 5),  # within the first one's minute, with a shorter gap
    ("ann", 58, 5),
    ("ann", 70, 1),
    ("bob", 0, 10),
    ("bob", 10, 10),
    (None, 3, 7),
    ("bob", 11, 0),  # no gap
    ("bob", 12, -5),  # negative
    ("bob", 13, 500),  # null
]
SESSION = op.Session(gap=GAP, by="user", aggregate={"n": "count(*)"}, time="at")
EXPECTED = [
    ("None", 3, 10, 1),
    ("ann", 0, 63, 3),
    ("ann", 70, 71, 1),
    ("bob", 0, 10, 1),
    ("bob", 10, 20, 1),
]


def spans(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (str(row["user"]), since_epoch(row["window_start"]), since_epoch(row["window_end"]), row["n"])
        for row in rows
    )


def test_a_session_lasts_until_the_gaps_of_all_its_rows_are_over(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    assert spans(SESSION(rows).collect()) == EXPECTED
    assert spans(replace(SESSION, trigger=op.Trigger())(rows).collect()) == EXPECTED


def test_rows_without_a_gap_are_counted_on_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, replace(SESSION, late=op.Correct(within="1 day")))
    emitted = stream.send([*ROWS[:1], *ROWS[3:], ("cat", 500, 1)])
    bridged = stream.send([("ann", 58, 15)])
    assert [(row["op"], *spans([row])[0]) for row in bridged] == [
        ("-", "ann", 0, 60, 1),
        ("-", "ann", 70, 71, 1),
        ("+", "ann", 0, 73, 3),
    ]
    assert len(emitted) == 5
    counted = [
        metrics
        for progress in stream.progress
        for name, metrics in progress["observedMetrics"].items()
        if name.startswith("headrace.left_out:session:")
    ]
    assert (sum(each["no_gap"] for each in counted), sum(each["no_time"] for each in counted)) == (3, 0)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("ms", "bigint"),
        ("INTERVAL 1 MONTH", "interval month"),
        ("seconds * INTERVAL 1 SECOND", "can't evaluate"),
        ("CASE WHEN", "can't evaluate"),
    ],
)
def test_a_gap_that_is_not_an_interval_is_rejected_when_it_is_applied(
    spark: SparkSession, expression: str, what: str
) -> None:
    with pytest.raises(op.BadOperator, match=what) as rejected:
        op.Session(gap=op.PerRow(expression), time="at")(bounded(spark, ROWS))
    assert rejected.value.field == "gap"
    assert rejected.value.hint
