"""Several sources as one: sources that are rejected, and the result for bounded rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.plan_names import EVENT_TIME

Sources = Callable[[SparkSession], Mapping[str, DataFrame]]


def rows(spark: SparkSession, columns: str, time: str = "at") -> DataFrame:
    created = spark.createDataFrame([], columns)
    return created.withColumn(time, F.col(time).alias(time, metadata={EVENT_TIME: True}))


def stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load().withColumnRenamed("timestamp", "at")


def test_bounded_sources_are_merged_with_a_source_column(spark: SparkSession) -> None:
    web = rows(spark, "at timestamp, url string")
    app = rows(spark, "at timestamp, screen string")
    merged = op.Merge(into="from")({"web": web, "app": app})
    assert merged.columns == ["at", "url", "from", "screen"]
    assert merged.schema["at"].metadata == {EVENT_TIME: True}


@pytest.mark.parametrize(
    ("sources", "problem"),
    [
        (lambda spark: {}, "sources are empty"),
        (
            lambda spark: {
                "web": rows(spark, "at timestamp"),
                "app": stream(spark).withWatermark("at", "1 second"),
            },
            "'web' is bounded",
        ),
        (
            lambda spark: {"web": stream(spark).withWatermark("at", "1 second"), "app": stream(spark)},
            "'app': time",
        ),
        (lambda spark: {"web": rows(spark, "at timestamp, source string")}, "already a column of 'web'"),
        (
            lambda spark: {"web": rows(spark, "at timestamp"), "app": rows(spark, "seen timestamp", "seen")},
            "web: at, app: seen",
        ),
    ],
)
def test_incompatible_sources_are_rejected(spark: SparkSession, sources: Sources, problem: str) -> None:
    with pytest.raises(op.BadOperator, match=problem) as rejected:
        op.Merge()(sources(spark))
    assert rejected.value.hint


@pytest.mark.parametrize("fields", [{"policy": "median"}, {"into": ""}])
def test_an_invalid_merge_is_rejected_by_the_constructor(fields: dict[str, Any]) -> None:
    with pytest.raises(op.BadOperator, match=next(iter(fields))):
        op.Merge(**fields)
