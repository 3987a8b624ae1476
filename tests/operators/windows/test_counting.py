"""Count windows: their settings, and their results on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.operators.state.inspect import read_state
from tests.operators.streams import EventRow, Stream, bounded, since_epoch

ROWS: list[EventRow] = [
    ("ann", 3, 30),
    ("ann", 1, 10),
    ("bob", 2, None),
    ("ann", 2, 20),
    (None, 1, 1),
    ("ann", 40, 4),
    ("bob", 41, 5),
    (None, 42, 2),
    ("ann", 41, 6),
    ("ann", 42, 7),
    ("cat", 300, 0),
]
COUNTING = op.Counting(
    2,
    by="user",
    aggregate={"n": "count(*)", "total": "sum(ms)", "all": "collect(ms)"},
    time="at",
    late=op.Correct(within="1 hour"),
)


def spans(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (str(row["user"]), since_epoch(row["window_start"]), since_epoch(row["window_end"]), row["total"])
        for row in rows
    )


EXPECTED = [
    ("None", 1, 42, 3),
    ("ann", 1, 2, 30),
    ("ann", 3, 40, 34),
    ("ann", 41, 42, 13),
    ("bob", 2, 41, 5),
]


def test_a_restarted_stream_ends_with_the_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    assert spans(COUNTING(bounded(spark, ROWS)).collect()) == EXPECTED
    stream = Stream(spark, tmp_path, COUNTING)
    emitted = stream.send([*ROWS[:3], *ROWS[4:8], ROWS[10]])
    emitted += stream.send([ROWS[3], *ROWS[8:10]])
    assert {row["pane"] for row in emitted} == {"on time", "late"}
    retracted = spans([row for row in emitted if row["op"] == "-"])
    current = Counter(spans([row for row in emitted if row["op"] == "+"]))
    current.subtract(retracted)
    assert sorted((+current).elements()) == EXPECTED
    assert retracted, "the late row shifted no row"
    kept = read_state(spark, tmp_path / "checkpoint").to_pylist()
    assert [row["rows"] for row in kept if row["user"] == "cat"] == [1]


def test_an_incomplete_window_is_emitted_if_the_trigger_has_early_panes(spark: SparkSession) -> None:
    window = op.Counting(2, by="user", aggregate={"total": "sum(ms)"}, time="at", trigger=op.Trigger(early=1))
    rows = window(bounded(spark, ROWS)).collect()
    assert spans([row for row in rows if row["pane"] == "on time"]) == EXPECTED
    assert spans([row for row in rows if row["pane"] == "early"]) == [("cat", 300, 300, 0)]


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Counting(0), "rows"),
        (lambda: op.Counting(-3), "rows"),
        (lambda: op.Counting(True), "rows"),
        (lambda: op.Counting("ten"), "rows"),  # type: ignore[arg-type]
        (lambda: op.Counting(2, trigger=op.Trigger(panes="discarding")), "trigger"),
    ],
)
def test_an_invalid_count_window_is_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint
