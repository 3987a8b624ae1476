"""Aggregates on Spark: sketches beside Spark's exact answers, rates beside what they are made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.streams import EventRow, Stream, bounded

ROWS: list[EventRow] = [
    (user, seconds, (seconds * 7) % 23 if seconds % 5 else None)
    for seconds in range(0, 150, 3)
    for user in ("ann", "bob", None)[: 1 + seconds % 3 + seconds % 2]
]
SKETCHES = {
    "users": "distinct(user)",
    "kinds": "distinct(ms % 2 * -0.0)",
    "middle": "percentile(ms, 0.5)",
    "slow": "percentile(ms + 0.5, 0.95)",
    "often": "top(user, 1)",
}


def plainly(found: Any) -> Any:
    return tuple(map(tuple, found)) if isinstance(found, list) else found


def shown(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plainly(row[name]) for name in ("window_start", *SKETCHES)) for row in rows)


def test_sketches_of_few_values_equal_the_exact_results_of_spark(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    sketched = rows.transform(op.Tumbling("1 minute", time="at", aggregate=SKETCHES))
    exact = rows.groupBy(F.window("at", "1 minute").start.alias("window_start")).agg(
        F.count_distinct("user").alias("users"),
        F.lit(1).alias("kinds"),  # there is but one zero
        F.percentile("ms", 0.5).alias("middle"),
        F.percentile(F.col("ms") + 0.5, 0.95).alias("slow"),
        F.array(F.struct(F.mode("user", deterministic=True), F.count_if(F.col("user") == "ann"))).alias(
            "often"
        ),
    )
    assert shown(sketched.collect()) == shown(exact.collect())


def test_a_stream_with_sketches_ends_with_the_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling(
        "1 minute",
        time="at",
        aggregate=SKETCHES,
        trigger=op.Trigger(early=1),
        late=op.Correct(within="1 hour"),
    )
    stream = Stream(spark, tmp_path, window)
    said = stream.send(ROWS[::2])
    said += stream.send(ROWS[1::2])
    standing = shown([row for row in said if row["op"] == "+"])
    standing.subtract(shown([row for row in said if row["op"] == "-"]))
    assert all(count >= 0 for count in standing.values()), "taken back what was never said"
    assert +standing == shown(window(bounded(spark, ROWS)).collect())


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (op.Tumbling("1 minute", by="user", time="at"), 60),
        (op.Hopping("1 minute", every="30 seconds", by="user", time="at"), 60),
        (op.Session(gap="50 seconds", by="user", time="at"), None),
        (op.Sliding("20 seconds", by="user", time="at"), 20),
    ],
    ids=lambda each: type(each).__name__.lower(),
)
def test_a_rate_is_by_the_seconds_of_the_window(
    spark: SparkSession, window: Any, seconds: int | None
) -> None:
    aggregate = {"n": "count(*)", "total": "sum(ms)", "per_s": "rate(*)", "ms_per_s": "rate(ms)"}
    rated = replace(window, aggregate=aggregate)
    rows = bounded(spark, ROWS)
    for one in (rated, replace(rated, trigger=op.Trigger())):
        found = one(rows).collect()
        assert found
        for row in found:
            length = (row.window_end - row.window_start).total_seconds()
            assert seconds in (None, length)
            assert row.per_s == pytest.approx(row.n / length)
            assert (row.ms_per_s is None) == (row.total is None)
            assert row.total is None or row.ms_per_s == pytest.approx(row.total / length)


@pytest.mark.parametrize("text", ["percentile(user, 0.5)", "top(pair, 1)", "distinct(nothing)"])
def test_a_sketch_that_does_not_fit_the_rows_is_refused(spark: SparkSession, text: str) -> None:
    rows = bounded(spark, ROWS).withColumn("pair", F.struct("user", "ms"))
    with pytest.raises(op.BadOperator) as refused:
        rows.transform(op.Tumbling("1 minute", time="at", aggregate={"n": text}))
    assert refused.value.field == "aggregate"
    assert refused.value.hint
