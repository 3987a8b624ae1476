"""Rows that can't be in any window are skipped and counted. Null is a key; distant times are valid."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.streams import EPOCH_S, Stream, bounded

WINDOWS: list[Any] = [
    op.Tumbling("1 minute", by="user", aggregate={"n": "count(*)"}, time="at"),
    op.Tumbling("1 minute", by="user", aggregate={"n": "count(*)"}, time="at", trigger=op.Trigger(early=1)),
]
WAYS = ["spark", "core"]


def counts_of(progress: list[dict[str, Any]], metric: str, name: str) -> int:
    return sum(
        metrics[name]
        for each in progress
        for found, metrics in each["observedMetrics"].items()
        if found.startswith(metric)
    )


@pytest.mark.parametrize("window", WINDOWS, ids=WAYS)
def test_rows_without_a_time_and_rows_late_after_a_far_future_time_are_counted(
    spark: SparkSession, tmp_path: Path, window: Any
) -> None:
    stream = Stream(spark, tmp_path, window)
    ahead = datetime(2100, 1, 1, tzinfo=UTC).timestamp() - EPOCH_S
    ancient = datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp() - EPOCH_S
    emitted = stream.send(
        [
            ("ann", 0, 1),
            ("ann", None, 1),
            (None, 1, 1),
            (None, None, 1),
            ("eve", ahead, 1),
            ("ann", ancient, 1),
        ]
    )
    assert sorted((str(row["user"]), row["n"]) for row in emitted if row["pane"] == "on time") == [
        ("None", 1),
        ("ann", 1),
    ]
    assert counts_of(stream.progress, "headrace.left_out:tumbling:", "no_time") == 2
    assert counts_of(stream.progress, "headrace.left_out:tumbling:", "before_1970") == 1
    assert stream.send([("ann", 30, 1), ("ann", -EPOCH_S, 1)]) == []
    by_spark = [each["stateOperators"][0]["numRowsDroppedByWatermark"] for each in stream.progress]
    assert sum(by_spark) + counts_of(stream.progress, "headrace.late:", "late") == 2


def test_an_implausible_time_counts_as_missing(spark: SparkSession) -> None:
    """Milliseconds that were read as seconds."""
    rows = bounded(spark, [("ann", 0, 1), ("bob", 0, 2)]).withColumn(
        "at",
        F.when(F.col("user") == "bob", F.timestamp_seconds(F.lit(EPOCH_S * 1000))).otherwise(F.col("at")),
    )
    for window in WINDOWS:
        assert [row.user for row in window(rows).collect()] == ["ann"]


FAR = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2100, 1, 1, 0, 0, 1, tzinfo=UTC),
]
MINUTES = [
    (datetime(1, 1, 1, tzinfo=UTC), 1),
    (datetime(1969, 12, 31, 23, 59, tzinfo=UTC), 1),
    (datetime(1970, 1, 1, tzinfo=UTC), 1),
    (datetime(2100, 1, 1, tzinfo=UTC), 1),
]
SESSIONS = [(FAR[0], 1), (FAR[1], 2), (FAR[3], 1)]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (WINDOWS[0], MINUTES),
        (WINDOWS[1], MINUTES),
        (op.Session(gap="1 minute", by="user", aggregate={"n": "count(*)"}, time="at"), SESSIONS),
    ],
    ids=[*WAYS, "session"],
)
def test_distant_times_are_valid_and_null_is_a_key(
    spark: SparkSession, window: Any, expected: list[tuple[datetime, int]]
) -> None:
    seconds = [(None, int(each.timestamp())) for each in FAR]
    rows = spark.createDataFrame(seconds, "user string, s bigint").withColumn("at", F.timestamp_seconds("s"))
    results = window(rows).select("user", F.unix_seconds("window_start").alias("start"), "n").collect()
    assert sorted((row.start, row.n) for row in results) == [
        (int(start.timestamp()), count) for start, count in expected
    ]
    assert {row.user for row in results} == {None}
