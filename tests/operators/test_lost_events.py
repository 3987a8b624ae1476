"""The headers of records that report loss, as windows count them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op

HEADERS = "array<struct<key:string,value:binary>>"


def complete(spark: SparkSession, *headers: list[tuple[str, bytes]] | None) -> float | None:
    """The completeness of a window of rows with these headers."""
    rows = spark.createDataFrame([(0, each) for each in headers], f"second LONG, _headers {HEADERS}")
    window = op.Tumbling(
        "1 minute",
        time="at",
        aggregate={"complete": "completeness(*)"},
        late=op.Correct(within="1 hour"),
    )
    (result,) = rows.selectExpr("timestamp_seconds(second) AS at", "_headers").transform(window).collect()
    found: float | None = result.complete
    return found


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([None, []], 1.0),
        ([None, [("feed.missing", b"2")]], 2 / 4),
        (
            [None, [("feed.missing", b"1"), ("feed.dropped", b"1"), ("edge.dropped", b"4"), ("other", b"9")]],
            2 / 8,
        ),
        ([[("edge.received", b"0")], [("edge.received", b"30"), ("edge.dropped", b"10")]], 3 / 4),
        ([[("edge.received", b"0")]], None),
        ([None, [("feed.missing", b"many")], [("edge.dropped", b"-5")], [("edge.dropped", b"\xff")]], 1.0),
    ],
    ids=["nothing", "a gap", "several losses", "a summary", "no event", "not a number"],
)
def test_completeness_counts_the_loss_that_headers_report(
    spark: SparkSession, headers: Any, expected: float | None
) -> None:
    assert complete(spark, *headers) == expected


def test_a_column_of_another_type_is_not_taken_for_headers(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp_seconds(0) AS at, 'feed.missing' AS _headers")
    window = op.Tumbling(
        "1 minute", time="at", aggregate={"n": "completeness(*)"}, late=op.Correct(within="1 hour")
    )
    assert [row.n for row in rows.transform(window).collect()] == [1.0]
