"""Estimated frequencies on Spark, and settings that are rejected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.plan_names import EVENT_TIME
from tests.operators.approximation.clicks import clicks


def test_every_row_has_the_count_of_its_value(spark: SparkSession) -> None:
    rows = clicks(spark, 500).transform(op.Frequency(of="url", column="n"))
    assert rows.columns == [*clicks(spark).columns, "n"]
    found = rows.collect()
    exact = Counter(row.url for row in clicks(spark, 500).collect())
    assert len(found) == 500
    # Few values: no cell is shared in all rows of the sketch.
    assert {(row.url, row.n) for row in found} == set(exact.items())


def test_rows_keep_their_event_time(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    timed = clicks(spark, 5).withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    assert timed.transform(op.Frequency(of="url")).schema["at"].metadata == {EVENT_TIME: True}


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Frequency(of=[]), "of"),
        (lambda: op.Frequency(of="url", column=""), "column"),
        (lambda: op.Frequency(of="url", error=0), "error"),
        (lambda: op.Frequency(of="url", error=0.6), "error"),
        (lambda: op.Frequency(of="url", error=cast("Any", "1 %")), "error"),
        (lambda: op.Frequency(of="url", confidence=1.0), "confidence"),
        (lambda: op.Frequency(of="url", confidence=float("nan")), "confidence"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_columns_that_do_not_fit_are_rejected_when_it_is_applied(spark: SparkSession) -> None:
    for operator, field in ((op.Frequency(of="link"), "of"), (op.Frequency(of="url", column="ms"), "column")):
        with pytest.raises(op.BadOperator) as rejected:
            clicks(spark).transform(operator)
        assert rejected.value.field == field
