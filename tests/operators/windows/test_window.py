"""Windows on Spark: streams that restart between batches, bounded rows, native windows and the core."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from tests.operators.streams import EventRow, Stream, bounded

AGGREGATE = {
    "n": "count(*)",
    "known": "count(ms)",
    "total": "sum(ms)",
    "least": "min(ms)",
    "most": "max(ms)",
    "mean": "avg(ms)",
    "spread": "stddev(ms)",
    "opened": "first(ms)",
    "closed": "last(ms)",
    "every": "collect(ms)",
}
ROWS: list[EventRow] = [
    ("ann", 1, 10),
    ("bob", 2, None),
    ("ann", 31, 20),
    (None, 59.5, 7),
    ("ann", 60, 5),
    ("bob", 61, 8),
    ("cat", 130, 1),
    ("ann", 200, 4),
    ("bob", 3, 9),
    (None, 62, None),
]
WINDOWS: list[op.Operator] = [
    op.Tumbling("1 minute", by="user", aggregate=AGGREGATE, time="at"),
    op.Tumbling("1 minute", by="user", aggregate=AGGREGATE, time="at", offset="20 seconds"),
    op.Hopping("1 minute", every="20 seconds", by="user", aggregate=AGGREGATE, time="at"),
    op.Sampling("10 seconds", every="1 minute", by="user", aggregate=AGGREGATE, time="at"),
    op.Session(gap="40 seconds", by="user", aggregate=AGGREGATE, time="at"),
    op.Session(
        gap="30 seconds", by="user", aggregate=AGGREGATE, time="at"
    ),  # exactly the distance of two rows
    op.Tumbling("1 minute", aggregate=AGGREGATE, time="at"),
]


def shown(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """Rows without the columns that describe the pane."""
    return Counter(
        tuple(
            tuple(value)
            if isinstance(value, list)
            else round(value, 9)
            if isinstance(value, float)
            else value
            for name, value in row.items()
            if name not in ("batch", "pane", "revision", "op", "watermark")
        )
        for row in rows
    )


def current(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """The emitted rows minus the retracted ones."""
    left = shown([row for row in rows if row["op"] == "+"])
    left.subtract(shown([row for row in rows if row["op"] == "-"]))
    assert all(count >= 0 for count in left.values()), "retracted a row that was never emitted"
    return +left


def collected(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda each: type(each).__name__.lower())
def test_native_windows_and_the_core_agree_on_bounded_rows(spark: SparkSession, window: Any) -> None:
    from dataclasses import replace

    rows = bounded(spark, ROWS)
    native, core = window(rows), replace(window, trigger=op.Trigger())(rows)
    assert native.schema.simpleString() == core.schema.simpleString()
    assert shown(collected(native)) == shown(collected(core))


def test_the_time_zone_of_the_session_changes_nothing(spark: SparkSession) -> None:
    newest = {"newest": "max(at)", "words": "min(user)"}
    window = op.Tumbling("1 hour", by=["at", "user"], aggregate=newest, time="at", trigger=op.Trigger())
    rows = bounded(spark, ROWS)
    expected = shown(collected(window(rows)))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert shown(collected(window(rows))) == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_a_restarted_stream_ends_with_the_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling(
        "1 minute",
        by="user",
        aggregate=AGGREGATE,
        time="at",
        trigger=op.Trigger(early=1),
        late=op.Correct(within="1 day"),
    )
    stream = Stream(spark, tmp_path, window)
    emitted = stream.send(ROWS[:6])
    assert {row["pane"] for row in emitted} == {"early", "on time"}
    emitted += stream.send(ROWS[6:])
    late = [row for row in emitted if row["pane"] == "late"]
    assert [(row["user"], row["op"], row["n"], row["revision"]) for row in late if row["user"] == "bob"] == [
        ("bob", "+", 2, 2)
    ]
    assert current(emitted) == shown(collected(window(bounded(spark, ROWS))))


def test_a_corrected_window_has_its_completeness(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling(
        "1 minute",
        by="user",
        aggregate={"n": "count(*)", "complete": "completeness(*)"},
        time="at",
        late=op.Correct(within="1 hour"),
    )
    stream = Stream(spark, tmp_path, window)
    on_time = stream.send([("ann", 0, 1), ("ann", 1, 1), ("ann", 2, 1), ("bob", 500, 1)])
    assert [(row["op"], row["pane"], row["n"], row["complete"]) for row in on_time] == [
        ("+", "on time", 3, 1)
    ]
    late = stream.send([("ann", 30, 1)])
    assert sorted((row["op"], row["pane"], row["n"], row["complete"]) for row in late) == [
        ("+", "late", 4, 0.75),
        ("-", "on time", 3, 1),
    ]
    assert {row["complete"] for row in collected(window(bounded(spark, ROWS)))} == {1}


@pytest.mark.parametrize(
    "create",
    [
        lambda **more: op.Session(gap="1 minute", late=op.Correct(within="1 hour"), **more),
        lambda **more: op.Counting(3, **more),
        lambda **more: op.Tumbling("1 minute", **more),
        lambda **more: op.Tumbling("1 minute", late=op.SideOutput("late"), **more),
    ],
)
def test_completeness_is_rejected_if_it_has_no_meaning(create: Any) -> None:
    with pytest.raises(op.BadOperator, match=r"has completeness\(\*\), which"):
        create(time="at", aggregate={"complete": "completeness(*)"})


def test_late_rows_that_are_dropped_are_counted_and_too_many_raise_an_alarm(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    window = op.Tumbling(
        "1 minute", by="user", aggregate={"n": "count(*)"}, time="at", late=op.DropLate(alarm_above=0.4)
    )
    stream = Stream(spark, tmp_path, window)
    emitted = stream.send([("ann", 0, 1), ("ann", 120, 1)])
    emitted += stream.send([("ann", 1, 1), ("bob", 2, 1), ("ann", 121, 1), ("ann", 180, 1)])
    assert [(row["user"], row["n"]) for row in emitted] == [("ann", 1), ("ann", 2)]
    counted = [
        metrics["late"]
        for progress in stream.progress
        for name, metrics in progress["observedMetrics"].items()
        if name.startswith("headrace.late:")
    ]
    assert sum(counted) == 2
    # Spark notifies its listeners asynchronously.
    deadline_s = time.monotonic() + 60
    while not caplog.messages and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].endswith("2 of 4 rows were late for tumbling, more than a fraction of 0.4")


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Counting(2, aggregate={"n": "median(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"op": "count(*)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "count()"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "sum(*)"}, trigger=op.Trigger()), "aggregate"),
        (lambda: op.Sliding("1 minute", aggregate={"n": "median(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "percentile(x, 95)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "percentile(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "top(x, 0)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "top(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "distinct(*)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "distinct(x)", "m": "median(x)"}), "aggregate"),
        (lambda: op.Tumbling("1 minute", aggregate={"n": "median(x)"}, trigger=op.Trigger()), "aggregate"),
        (
            lambda: op.Tumbling("1 minute", aggregate={"n": "count(distinct x)"}, trigger=op.Trigger()),
            "aggregate",
        ),
        (lambda: op.Tumbling("1 minute", by=["a", "a"]), "by"),
        (lambda: op.Tumbling("1 minute", by="window_start"), "by"),
    ],
)
def test_invalid_aggregates_and_keys_are_rejected_by_the_constructor(
    create: Callable[[], object], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint
