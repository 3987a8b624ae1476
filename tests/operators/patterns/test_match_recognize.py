"""MatchRecognize on Spark: bounded rows, streams with restarts, late rows, and what is rejected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.patterns.place import BadPattern
from headrace.operators.state.spark import BUCKETS_SETTING
from headrace.plan_names import EVENT_TIME
from tests.operators.streams import Stream, bounded, since_epoch

FALL_AND_RISE = """
    PARTITION BY user ORDER BY at
    MEASURES FIRST(at) AS since, MATCH_ROWTIME() AS until, A.ms AS top, MIN(B.ms) AS low,
        COUNT(*) AS n, MATCH_NUMBER() AS number
    PATTERN (A B+ C) WITHIN INTERVAL '100' SECOND
    DEFINE B AS ms < PREV(ms), C AS ms > PREV(ms)"""


@pytest.fixture(autouse=True)
def _few_buckets(spark: SparkSession) -> Any:
    spark.conf.set(BUCKETS_SETTING, "2")
    yield
    spark.conf.unset(BUCKETS_SETTING)


def _shown(row: dict[str, Any]) -> tuple[Any, ...]:
    since, until = since_epoch(row["since"]), since_epoch(row["until"])
    return row["user"], since, until, row["top"], row["low"], row["n"], row["number"]


def test_stream_emits_a_match_when_it_is_complete_and_continues_after_restarts(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path, op.MatchRecognize(FALL_AND_RISE))
    assert stream.send([("a", 1, 9), ("a", 2, 7), ("b", 3, 1)]) == []
    assert stream.send([("a", 4, 6), ("a", 3, 5), ("b", 4, 0)]) == []
    found = stream.send([("a", 6, 3), ("b", 7, 2), ("a", 5, None), ("c", None, 5)])
    assert [_shown(row) for row in found] == [("a", 1.0, 4.0, 9, 5, 4, 1)]
    found = stream.send([("b", 200, 1), ("a", 1, 1)])
    assert [_shown(row) for row in found] == [("b", 3.0, 7.0, 1, 0, 3, 1)]
    counts = [each["observedMetrics"] for each in stream.progress]
    late = [row["late"] for each in counts for name, row in each.items() if "late" in name and "late" in row]
    skipped = [row["no_time"] for each in counts for name, row in each.items() if "left_out" in name]
    assert (sum(late), sum(skipped)) == (1, 1)


@pytest.mark.slow
def test_match_ends_with_its_time_even_if_no_row_follows(spark: SparkSession, tmp_path: Path) -> None:
    text = """PARTITION BY user ORDER BY at MEASURES COUNT(*) AS n
        PATTERN (A+) WITHIN INTERVAL '10' SECOND DEFINE A AS ms > 0"""
    stream = Stream(spark, tmp_path, op.MatchRecognize(text))
    assert stream.send([("a", 1, 1), ("a", 2, 1), ("b", 10, 0)]) == []
    assert [(row["user"], row["n"]) for row in stream.send([("b", 11, 0)])] == [("a", 2)]


def test_bounded_rows_give_what_the_stream_gives(spark: SparkSession) -> None:
    rows = bounded(
        spark, [("a", 1, 9), ("a", 3, 5), ("a", 2, 7), ("a", 4, 6), ("b", 3, 1), ("b", 4, 0), ("b", 5, 2)]
    )
    found = rows.transform(op.MatchRecognize(FALL_AND_RISE)).collect()
    assert sorted(_shown(row.asDict()) for row in found) == [
        ("a", 1.0, 4.0, 9, 5, 4, 1),
        ("b", 3.0, 5.0, 1, 0, 3, 1),
    ]


def test_rows_without_a_key_are_a_partition_and_rows_without_a_time_are_skipped(spark: SparkSession) -> None:
    rows = bounded(spark, [(None, 1, 9), (None, 2, 5), ("a", 3, 1), (None, 4, 6), (None, None, 7)])
    found = rows.transform(op.MatchRecognize(FALL_AND_RISE)).collect()
    assert [_shown(row.asDict()) for row in found] == [(None, 1.0, 4.0, 9, 5, 3, 1)]


def test_bounded_rows_have_any_order(spark: SparkSession) -> None:
    rows = spark.sql("select * from values (1, 'x', 2.5D), (1, 'y', 1.5D), (null, 'z', 3D) as t(n, name, v)")
    text = "ORDER BY n {} MEASURES array_agg(name) AS names PATTERN (A*)"
    names = {
        order: rows.transform(op.MatchRecognize(text.format(order))).collect()[0].names
        for order in ("DESC, v", "NULLS LAST, v DESC", "NULLS FIRST, v")
    }
    assert names == {
        "DESC, v": ["y", "x", "z"],
        "NULLS LAST, v DESC": ["x", "y", "z"],
        "NULLS FIRST, v": ["z", "y", "x"],
    }


def test_all_rows_have_their_columns_and_the_measures(spark: SparkSession) -> None:
    rows = bounded(spark, [("a", 1, 9), ("a", 2, 5), ("a", 3, None)])
    text = """PARTITION BY user ORDER BY at MEASURES CLASSIFIER() AS variable, ms - PREV(ms) AS step
        ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN (A B) DEFINE B AS ms < PREV(ms)"""
    found = rows.transform(op.MatchRecognize(text))
    assert found.columns == ["user", "at", "variable", "step", "ms"]
    assert [(row.variable, row.step, row.ms) for row in found.orderBy("at").collect()] == [
        ("A", None, 9),
        ("B", -4, 5),
        (None, None, None),
    ]


def test_rows_of_equal_time_have_an_order_that_does_not_depend_on_their_arrival(spark: SparkSession) -> None:
    operator = op.MatchRecognize("PARTITION BY user ORDER BY at MEASURES array_agg(ms) AS all PATTERN (A+)")
    rows = [("a", 1, ms) for ms in range(20)]
    one, other = (bounded(spark, each).repartition(3).transform(operator) for each in (rows, rows[::-1]))
    assert one.collect()[0]["all"] == other.collect()[0]["all"]


def test_late_rows_go_to_the_side_output(spark: SparkSession, tmp_path: Path) -> None:
    from headrace.operators.late_rows import late_lots
    from headrace.plan_names import LATE_ROWS_FOLDER

    folder = tmp_path / "late"
    spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, str(folder))
    try:
        stream = Stream(
            spark, tmp_path, op.MatchRecognize(FALL_AND_RISE, late=op.SideOutput("payments.late"))
        )
        stream.send([("a", 10, 1)])
        stream.send([("a", 4, 7), ("a", 12, 0)])
    finally:
        spark.sparkContext.setLocalProperty(LATE_ROWS_FOLDER, "")
    batches = [int(each.name) for each in folder.iterdir()]
    rows = [row for batch in batches for lot in late_lots(folder, batch) for row in lot.rows()]
    assert [since_epoch(row.window_start) for row in rows if row.window_start] == [4.0]
    assert '"ms":7' in rows[0].content


STREAM_ERRORS = {
    "ORDER BY at PATTERN (A\n B+)": ("line 2, column 3", "any number of rows"),
    "ORDER BY at PATTERN (A $)": ("line 1, column 24", "no last row"),
    "ORDER BY ms PATTERN (A)": ("line 1, column 10", "must be ordered by a timestamp"),
    "ORDER BY at PATTERN (A) DEFINE A AS mss > 1": ("line 1, column 37", "column 'mss' does not exist"),
    "ORDER BY at PATTERN (A) DEFINE A AS B.ms > 1": ("line 1, column 37", "variable 'B' is unknown"),
    "ORDER BY at PATTERN (A) DEFINE A AS ms > 'x'": (
        "line 1, column 40",
        "not possible with int64 and string",
    ),
    "ORDER BY at PATTERN (A) DEFINE A AS ms + 1": ("line 1, column 40", "a condition must be true or false"),
    "PARTITION BY usr ORDER BY at PATTERN (A)": ("line 1, column 14", "column 'usr' does not exist"),
    "PARTITION BY user ORDER BY at MEASURES 1 AS user PATTERN (A)": (
        "line 1, column 45",
        "the name of a column",
    ),
    "ORDER BY at MEASURES SUM(user) AS s PATTERN (A)": ("line 1, column 22", "SUM needs a number"),
}


@pytest.mark.parametrize("text", STREAM_ERRORS)
def test_pattern_that_does_not_fit_the_rows_is_rejected_with_its_place(
    spark: SparkSession, text: str
) -> None:
    place, problem = STREAM_ERRORS[text]
    rows = spark.readStream.format("rate").load().selectExpr("'a' as user", "timestamp as at", "value as ms")
    with pytest.raises(BadPattern) as rejected:
        rows.withWatermark("at", "1 minute").transform(op.MatchRecognize(text))
    assert place in rejected.value.message
    assert problem in rejected.value.message
    assert "^" in rejected.value.message.splitlines()[-1]


@pytest.mark.slow
def test_pattern_with_a_bound_of_its_own_needs_no_other_on_a_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(
        spark, tmp_path, op.MatchRecognize("PARTITION BY user ORDER BY at MEASURES B.ms AS ms PATTERN (A B)")
    )
    stream.send([("a", 1, 1), ("a", 2, 2)])
    assert [row["ms"] for row in stream.send([("a", 5, 3)])] == [2]


def test_stream_without_a_watermark_is_rejected(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load()
    with pytest.raises(op.BadOperator, match="no watermark"):
        rows.transform(op.MatchRecognize("ORDER BY timestamp PATTERN (A)"))


def test_event_time_of_the_order_is_the_default(spark: SparkSession) -> None:
    rows = bounded(spark, [("a", 2, 1), ("a", 1, 2)])
    rows = rows.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    found = rows.transform(op.MatchRecognize("PARTITION BY user MEASURES array_agg(ms) AS ms PATTERN (A+)"))
    assert found.collect()[0].ms == [2, 1]
    with pytest.raises(op.BadOperator, match="no column is declared as the event time"):
        rows.select(F.col("ms")).transform(op.MatchRecognize("PATTERN (A)"))


def test_other_settings_are_checked() -> None:
    with pytest.raises(op.BadOperator, match="rows_max is 0"):
        op.MatchRecognize("PATTERN (A)", rows_max=0)
    with pytest.raises(op.BadOperator, match="a match is final"):
        op.MatchRecognize("PATTERN (A)", late=op.Correct(within="1 hour"))  # type: ignore[arg-type]
    with pytest.raises(op.BadOperator, match="too large"):
        op.MatchRecognize("PATTERN (((A{100}){100}){100})")
