"""The base of operators: durations, event times, and errors that name the field."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.operator import duration_us
from headrace.plan_names import EVENT_TIME
from tests.operators.streams import bounded


@pytest.mark.parametrize(
    ("duration", "us"),
    [
        ("10 seconds", 10_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("500 milliseconds", 500_000),
        ("1 Day", 86_400_000_000),
        (timedelta(minutes=2), 120_000_000),
    ],
)
def test_durations_are_parsed(duration: str | timedelta, us: int) -> None:
    assert duration_us(duration, operator="x", field="y") == us


@pytest.mark.parametrize(
    ("window", "field"),
    [
        (op.Tumbling("1 minute"), "time"),
        (op.Tumbling("1 minute", time="then"), "time"),
        (op.Tumbling("1 minute", time="ms"), "time"),
        (op.Tumbling("1 minute", time="at", by="usr"), "by"),
        (op.Tumbling("1 minute", time="at", by="nested", trigger=op.Trigger()), "by"),
        (
            op.Tumbling("1 minute", time="at", aggregate={"n": "sum(nothing)"}, trigger=op.Trigger()),
            "aggregate",
        ),
        (op.Tumbling("1 minute", time="at", aggregate={"n": "sum(user)"}, trigger=op.Trigger()), "aggregate"),
        (
            op.Tumbling("1 minute", time="at", aggregate={"n": "collect(ms, x)"}, trigger=op.Trigger()),
            "aggregate",
        ),
    ],
)
def test_an_operator_that_does_not_fit_the_rows_is_rejected_when_it_is_applied(
    spark: SparkSession, window: op.Operator, field: str
) -> None:
    rows = bounded(spark, [("ann", 1, 1)]).withColumn("nested", F.struct("user", "ms"))
    with pytest.raises(op.BadOperator) as rejected:
        window(rows)
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_stream_without_a_watermark_is_rejected(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load()
    with pytest.raises(op.BadOperator, match="no watermark") as rejected:
        op.Tumbling("1 minute", time="timestamp")(stream)
    assert "withWatermark" in rejected.value.hint


def test_the_column_that_the_source_declared_is_the_event_time(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1), ("ann", 61, 1)]).withColumn("sent", F.current_timestamp())
    declared = rows.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    assert op.Tumbling("1 minute")(declared).count() == 2


WRONG = ("None", "5", "[]", "name", "sum", "object", "text", "bytes")
COLUMN_NAMES = {"name", "text"}


def wrong_value(name: str) -> object:
    """A value that most fields do not accept."""
    values = {"None": None, "5": 5, "[]": [], "object": object(), "text": "x", "bytes": b"x"}
    columns = {"name": F.col("user"), "sum": F.col("user") + 1}
    return {**values, **columns}[name]


OPERATORS: dict[type, dict[str, Any]] = {
    op.Absence: {"on": "user", "within": "1 hour"},
    op.Changelog: {"key": "user"},
    op.CompareWith: {"before": "1 day", "on": "user", "columns": "ms"},
    op.Correct: {"within": "1 hour"},
    op.CorrectClock: {"event": "a", "sent": "b", "received": "c", "into": "d"},
    op.Counting: {"rows": 5},
    op.DropLate: {},
    op.Enrich: {"on": "user"},
    op.GroupChanges: {},
    op.Hopping: {"length": "1 hour", "every": "1 minute"},
    op.JoinTables: {"on": "user"},
    op.JoinWindow: {"on": "user", "length": "1 hour"},
    op.JoinWithin: {"on": "user", "before": "1 hour", "after": "1 hour"},
    op.MatchRecognize: {"text": "PATTERN (A)"},
    op.Merge: {},
    op.Newest: {"count": 5, "order": "at"},
    op.PerRow: {"expression": "INTERVAL 1 HOUR"},
    op.Sampling: {"length": "1 minute", "every": "1 hour"},
    op.Session: {"gap": "1 hour"},
    op.SideOutput: {},
    op.Sliding: {"within": "1 hour"},
    op.Trigger: {},
    op.Tumbling: {"length": "1 hour"},
}
FRAMES = {
    op.Absence: "of",
    op.Enrich: "table",
    op.JoinTables: "other",
    op.JoinWindow: "other",
    op.JoinWithin: "other",
}

WINDOWS = (op.Counting, op.Hopping, op.Sampling, op.Session, op.Sliding, op.Tumbling)
ACCEPTED: dict[tuple[type, str], set[str]] = {
    **{(window, "by"): {"[]", *COLUMN_NAMES} for window in WINDOWS},
    **{(window, "time"): {"None", *COLUMN_NAMES} for window in WINDOWS},
    **{(window, field): {"None"} for window in WINDOWS for field in ("late", "trigger")},
    **{(window, "zone"): {"None"} for window in (op.Hopping, op.Sampling, op.Tumbling)},
    **{(op.Changelog, field): COLUMN_NAMES for field in ("key", "order")},
    (op.Changelog, "keep_deleted"): {"None"},
    (op.CompareWith, "on"): {"[]", *COLUMN_NAMES},
    (op.CompareWith, "columns"): COLUMN_NAMES,
    (op.CompareWith, "suffix"): {"text"},
    (op.CompareWith, "zone"): {"None"},
    (op.Correct, "beyond"): {"None"},
    **{(op.CorrectClock, field): COLUMN_NAMES for field in ("event", "sent", "received", "into")},
    (op.CorrectClock, "offset_max"): {"None"},
    (op.Counting, "rows"): {"5"},
    (op.DropLate, "alarm_above"): {"None"},
    **{(op.Enrich, field): {"None", *COLUMN_NAMES} for field in ("time", "table_time")},
    **{(op.Enrich, field): {"None"} for field in ("wait", "keep", "unmatched", "corrections")},
    (op.Enrich, "columns"): {"None", "[]", *COLUMN_NAMES},
    (op.Enrich, "deleted"): {"None", "text"},
    (op.Enrich, "on"): COLUMN_NAMES,
    (op.Enrich, "suffix"): {"text"},
    (op.GroupChanges, "by"): {"[]", *COLUMN_NAMES},
    (op.GroupChanges, "time"): {"None", *COLUMN_NAMES},
    (op.JoinTables, "on"): {"name"},
    **{
        (op.JoinTables, field): {"[]", *COLUMN_NAMES}
        for field in ("key", "other_key", "order", "other_order")
    },
    (op.JoinWindow, "unmatched"): {"None"},
    **{(op.JoinWindow, field): {"None", *COLUMN_NAMES} for field in ("time", "other_time")},
    (op.JoinWindow, "on"): COLUMN_NAMES,
    (op.JoinWindow, "suffix"): {"text"},
    **{(op.JoinWithin, field): {"None"} for field in ("within", "before", "after", "unmatched")},
    **{(op.JoinWithin, field): {"None", *COLUMN_NAMES} for field in ("time", "other_time")},
    (op.JoinWithin, "on"): COLUMN_NAMES,
    (op.JoinWithin, "suffix"): {"text"},
    (op.Absence, "of"): {"None"},
    (op.Absence, "on"): COLUMN_NAMES,
    **{(op.Absence, field): {"None", *COLUMN_NAMES} for field in ("time", "other_time")},
    (op.MatchRecognize, "late"): {"None"},
    (op.MatchRecognize, "rows_max"): {"None", "5"},
    (op.MatchRecognize, "steps_max"): {"5"},
    (op.Merge, "into"): {"text"},
    (op.Newest, "by"): {"[]", *COLUMN_NAMES},
    (op.Newest, "count"): {"5"},
    (op.Newest, "keep"): {"None", "5"},
    (op.Newest, "order"): {"text"},
    (op.Newest, "rank"): {"None", "text"},
    (op.PerRow, "expression"): {"text"},
    (op.SideOutput, "topic"): {"text"},
    **{(op.Trigger, field): {"None", "5"} for field in ("early", "late")},
}
"""The fields that accept one of these values."""


def test_every_field_of_every_operator_rejects_values_of_another_type(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1)])
    accepted: dict[tuple[type, str], set[str]] = {}
    for operator, arguments in OPERATORS.items():
        given = {**arguments, FRAMES[operator]: rows} if operator in FRAMES else arguments
        operator(**given)
        for field in dataclasses.fields(operator):
            for wrong in WRONG:
                try:
                    operator(**{**given, field.name: wrong_value(wrong)})
                    accepted.setdefault((operator, field.name), set()).add(wrong)
                except op.BadOperator as error:
                    found = error.operator, error.field, bool(error.hint)
                    if found != (operator.__name__, field.name, True):
                        raise
    assert accepted == ACCEPTED


@pytest.mark.parametrize(
    ("arguments", "field", "hint"),
    [
        ({"late": "1 hour"}, "late", "set late=op.Correct(within='1 hour')"),
        ({"trigger": "each"}, "trigger", "set trigger=op.Trigger(late='each')"),
        ({"trigger": "10 seconds"}, "trigger", "set trigger=op.Trigger(early='10 seconds')"),
        ({"aggregate": "count(*)"}, "aggregate", 'aggregate={"name": "count(*)"}'),
        ({"aggregate": {"n": 5}}, "aggregate", 'set a text such as "count(*)"'),
        ({"aggregate": {5: "count(*)"}}, "aggregate", '{"n": "count(*)"}'),
        ({"aggregate": [5]}, "aggregate", 'set a text such as "count(*)"'),
        ({"by": None}, "by", 'name a column: by="name"'),
        ({"by": ["user", 5]}, "by", 'name a column: by="name"'),
    ],
)
def test_a_value_of_another_type_is_rejected_with_what_was_meant(
    arguments: dict[str, Any], field: str, hint: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        op.Tumbling("1 minute", **arguments)
    assert rejected.value.field == field
    assert hint in rejected.value.hint


def test_a_column_stands_for_its_name(spark: SparkSession) -> None:
    given = op.Tumbling("1 minute", by=[F.col("user"), "ms"], time=F.col("a"))  # type: ignore[list-item,arg-type]
    assert given == op.Tumbling("1 minute", by=["user", "ms"], time="a")
    assert op.GroupChanges(by=F.col("a b")).by == ("a b",)  # type: ignore[arg-type]
    with pytest.raises(op.BadOperator, match="not a column name"):
        op.GroupChanges(by=F.col("where.x"))  # type: ignore[arg-type]
