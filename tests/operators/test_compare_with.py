"""Comparisons with an earlier window, beside what plain Python makes of all results that stand."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.operators.comparison import Compared, ComparisonLift, ComparisonStep
from headrace.operators.state.run import Run
from headrace.operators.state.step import BEGINNING_US, StepTime, advance
from headrace.operators.state.table import StateTable
from headrace.operators.triggers import Panes
from tests.operators.streams import EventRow, Stream, bounded, since_epoch
from tests.operators.windows.pane_oracle import Oracle, Row, Rules, clock
from tests.operators.windows.stepping import batches

LENGTH = 10
COLUMNS = [
    pa.field("key", pa.string()),
    pa.field("window_start", pa.int64()),
    pa.field("n", pa.int64()),
    pa.field("pane", pa.string()),
    pa.field("revision", pa.int32()),
    pa.field("op", pa.string()),
    pa.field("watermark", pa.int64()),
]

Result = tuple[Any, ...]
"""As the oracle of windows says it: key, start, end, n, …, pane, revision, op."""


class Comparing:
    """The step under test, with a bucket that may forget everything but its bytes."""

    def __init__(self, *, before: int, within: int) -> None:
        compared = Compared(columns=COLUMNS, keys=[0], before=[(2, "n_before")])
        self._before = before
        self._step = ComparisonStep(compared, within_us=within)
        self._lift = ComparisonLift(compared, self._step.input_schema)
        self.table = StateTable(self._step.state_schema)
        self.late_rows = 0

    def work(self, results: list[Result], watermark: float) -> list[dict[str, Any]]:
        time = StepTime(watermark_us=BEGINNING_US if watermark < 0 else int(watermark), now_us=0)
        advanced = advance(self._step, self.table, self._lift(self._table_of(results))[0], time)
        self.table = advanced.table
        self.late_rows += advanced.late_rows
        found: list[dict[str, Any]] = advanced.output.to_pylist()
        return found

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self._step.state_schema, runs)

    def _table_of(self, results: list[Result]) -> pa.Table:
        shown = [(each[0], each[1], each[3], each[-3], each[-2], each[-1], None) for each in results]
        made = {
            "h1": pa.array([hash(each[0]) for each in results], pa.int64()),
            "h2": pa.array([hash(each[0] + "!") for each in results], pa.int64()),
            "start": pa.array([each[1] for each in results], pa.int64()),
            "end": pa.array([each[2] for each in results], pa.int64()),
            "later_start": pa.array([each[1] + self._before for each in results], pa.int64()),
            "later_end": pa.array([each[2] + self._before for each in results], pa.int64()),
            "revision": pa.array([each[-2] for each in results], pa.int32()),
            "is_retraction": pa.array([each[-1] == "-" for each in results], pa.bool_()),
        }
        columns = {
            f"c{number}": pa.array([row[number] for row in shown], field.type)
            for number, field in enumerate(COLUMNS)
        }
        return pa.table({**made, **columns})


@settings(max_examples=150)
@given(
    batches(),
    st.sampled_from([0, 5, 40, 10**6]),
    st.none() | st.integers(1, 3),
    st.sampled_from(["retracting", "accumulating"]),
    st.sampled_from([LENGTH, 3 * LENGTH]),
    st.booleans(),
)
def test_current_results_are_compared_at_every_step(
    batches: list[tuple[list[Row], float, int]],
    within: int,
    early_rows: int | None,
    panes: Panes,
    before: int,
    restarts: bool,
) -> None:
    oracle = Oracle(Rules(within=within, early_rows=early_rows, panes=panes), assign=clock(LENGTH, LENGTH))
    comparing = Comparing(before=before, within=within)
    counts: dict[tuple[str, int], int] = {}
    standing: Counter[tuple[Any, ...]] = Counter()
    said: dict[tuple[str, int], dict[str, Any]] = {}
    for rows, watermark, now in batches:
        results = oracle.step(rows, watermark, now)
        for result in results:
            if result[-1] == "+":
                counts[result[0], result[1]] = result[3]
        for row in comparing.work(results, watermark):
            window = row["key"], row["window_start"]
            if row["op"] == "-":
                taken_back = {**said.pop(window), "op": "-", "watermark": row["watermark"]}
                assert row == taken_back, "what is taken back is not what was said"
            else:
                assert row["revision"] == 0 or window not in said
                said[window] = row
            standing[(*window, row["n"], row["n_before"])] += 1 if row["op"] == "+" else -1
        expected = [
            (key, start, count, counts.get((key, start - before))) for (key, start), count in counts.items()
        ]
        assert +standing == Counter(expected)
        assert all(count >= 0 for count in standing.values())
        if restarts:
            comparing.restart()
    assert comparing.late_rows == 0
    assert comparing.table.all_rows().num_rows == 0, "state of comparisons that are over stays behind"


def test_a_correction_of_a_deleted_slot_is_dropped_and_counted() -> None:
    comparing = Comparing(before=100, within=0)
    first = ("a", 0, 10, 1, "on time", 0, "+")
    assert [row["op"] for row in comparing.work([first], 20)] == ["+"]
    late = [("a", 0, 10, 1, "on time", 0, "-"), ("a", 0, 10, 2, "late", 1, "+")]
    assert comparing.work(late, 20) == []
    assert comparing.late_rows == 1


DAY_S = 86_400
WEEK: list[EventRow] = [
    ("ann", 10, 1),
    ("ann", 20, 2),
    ("bob", 30, 4),
    ("ann", 7 * DAY_S + 10, 8),
    (None, 7 * DAY_S + 20, 1),
    ("ann", 14 * DAY_S, 3),
]


def by_week(rows: DataFrame) -> DataFrame:
    hourly = op.Tumbling(
        "1 hour",
        by="user",
        aggregate={"n": "count(*)", "total": "sum(ms)"},
        time="at",
        late=op.Correct(within="8 days"),
    )
    compare = op.CompareWith("7 days", on="user", columns=["n", "total"], within="8 days")
    return rows.transform(hourly).transform(compare)


def shown(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (
            row["op"],
            row["user"],
            since_epoch(row["window_start"]) // DAY_S,
            row["n"],
            row["n_before"],
            row["total_change"],
        )
        for row in rows
    )


def test_a_week_before_on_bounded_rows(spark: SparkSession) -> None:
    expected = [
        ("+", "ann", 0, 2, None, None),
        ("+", "bob", 0, 1, None, None),
        ("+", "ann", 7, 1, 2, 5),
        ("+", None, 7, 1, None, None),
        ("+", "ann", 14, 1, 1, -5),
    ]
    assert shown(by_week(bounded(spark, WEEK)).collect()) == Counter(expected)


def test_a_stream_emits_a_comparison_again_after_a_correction(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, by_week)
    first = stream.send([*WEEK[:5], ("bob", 7 * DAY_S + DAY_S / 2, 1)])
    assert shown(first) == Counter(
        [
            ("+", "ann", 0, 2, None, None),
            ("+", "bob", 0, 1, None, None),
            ("+", "ann", 7, 1, 2, 5),
            ("+", None, 7, 1, None, None),
        ]
    )
    second = stream.send([("ann", 40, 6)])
    assert shown(second) == Counter(
        [
            ("-", "ann", 0, 2, None, None),
            ("+", "ann", 0, 3, None, None),
            ("-", "ann", 7, 1, 2, 5),
            ("+", "ann", 7, 1, 3, -1),
        ]
    )


def test_a_day_earlier_is_the_same_local_time_across_a_clock_change(spark: SparkSession) -> None:
    """In Berlin the night to 29 March 2026 is an hour short."""
    starts = [datetime(2026, 3, 28, 8, tzinfo=UTC), datetime(2026, 3, 29, 7, tzinfo=UTC)]
    rows = spark.createDataFrame(
        [(start, start + timedelta(hours=1), number + 1, 0, "+") for number, start in enumerate(starts)],
        "window_start timestamp, window_end timestamp, n int, revision int, op string",
    )
    for zone, expected in (("Europe/Berlin", [None, 1]), (None, [None, None])):
        compared = rows.transform(op.CompareWith("1 day", on=(), columns="n", zone=zone))
        assert [row.n_before for row in compared.orderBy("window_start").collect()] == expected


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: op.CompareWith("0 days", on="user", columns="n"), "before"),
        (lambda: op.CompareWith("1 day", on="user", columns=()), "columns"),
        (lambda: op.CompareWith("1 day", on="user", columns="n", within="-1 day"), "within"),
        (lambda: op.CompareWith("1 day", on="user", columns="n", zone="Mars/Base"), "zone"),
    ],
)
def test_an_invalid_comparison_is_refused(make: Any, field: str) -> None:
    with pytest.raises(op.BadOperator) as refused:
        make()
    assert refused.value.field == field
    assert refused.value.hint


@pytest.mark.parametrize(
    ("compare", "field"),
    [
        (op.CompareWith("1 day", on="usr", columns="n"), "on"),
        (op.CompareWith("1 day", on="user", columns="m"), "columns"),
        (op.CompareWith("1 day", on="user", columns="pane"), "columns"),
    ],
)
def test_a_comparison_that_does_not_fit_the_rows_is_refused(
    spark: SparkSession, compare: op.Operator, field: str
) -> None:
    hourly = op.Tumbling("1 hour", by="user", aggregate={"n": "count(*)"}, time="at")
    results = bounded(spark, WEEK).transform(hourly)
    with pytest.raises(op.BadOperator) as refused:
        results.transform(compare)
    assert refused.value.field == field
    twice = op.CompareWith("1 day", on="user", columns="n")
    with pytest.raises(op.BadOperator, match="two columns 'n_before'"):
        results.transform(twice).transform(twice)
    with pytest.raises(op.BadOperator, match="needs results of windows"):
        bounded(spark, WEEK).transform(twice)
