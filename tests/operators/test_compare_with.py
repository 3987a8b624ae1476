"""Comparisons with an earlier window on Spark: bounded rows, streams, time zones, and what is rejected."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from tests.operators.streams import EventRow, Stream, bounded, since_epoch

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
    ("create", "field"),
    [
        (lambda: op.CompareWith("0 days", on="user", columns="n"), "before"),
        (lambda: op.CompareWith("1 day", on="user", columns=()), "columns"),
        (lambda: op.CompareWith("1 day", on="user", columns="n", within="-1 day"), "within"),
        (lambda: op.CompareWith("1 day", on="user", columns="n", zone="Mars/Base"), "zone"),
    ],
)
def test_an_invalid_comparison_is_rejected(create: Any, field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("compare", "field"),
    [
        (op.CompareWith("1 day", on="usr", columns="n"), "on"),
        (op.CompareWith("1 day", on="user", columns="m"), "columns"),
        (op.CompareWith("1 day", on="user", columns="pane"), "columns"),
    ],
)
def test_a_comparison_that_does_not_fit_the_rows_is_rejected(
    spark: SparkSession, compare: op.Operator, field: str
) -> None:
    hourly = op.Tumbling("1 hour", by="user", aggregate={"n": "count(*)"}, time="at")
    results = bounded(spark, WEEK).transform(hourly)
    with pytest.raises(op.BadOperator) as rejected:
        results.transform(compare)
    assert rejected.value.field == field
    twice = op.CompareWith("1 day", on="user", columns="n")
    with pytest.raises(op.BadOperator, match="two columns 'n_before'"):
        results.transform(twice).transform(twice)
    with pytest.raises(op.BadOperator, match="needs results of windows"):
        bounded(spark, WEEK).transform(twice)
