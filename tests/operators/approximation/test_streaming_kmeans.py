"""Clusters on Spark, beside Spark's own streaming k-means, and settings and rows that are rejected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.mllib.clustering import StreamingKMeansModel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.approximation.clusters import Clusters, moved
from headrace.operators.state.spark import BUCKETS_SETTING
from tests.operators.streams import Stream

START = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def few_buckets(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(BUCKETS_SETTING, "2")
    yield
    spark.conf.unset(BUCKETS_SETTING)


def trips(spark: SparkSession, points: list[tuple[Any, Any]]) -> DataFrame:
    rows = [(START + timedelta(minutes=n), lon, lat) for n, (lon, lat) in enumerate(points)]
    return spark.createDataFrame(rows, "at timestamp, lon double, lat double")


def test_model_moves_as_that_of_spark(spark: SparkSession) -> None:
    random = np.random.default_rng(9)
    centres, weights = random.normal(0, 5, (3, 2)), np.array([2.0, 1.0, 1e-9])
    ours = Clusters(centres, weights)
    sparks = StreamingKMeansModel(centres.tolist(), weights.tolist())
    for decay, unit in ((0.5, "batches"), (0.9, "points"), (0.5, "batches")):
        points = random.normal(0, 5, (20, 2))
        sparks = sparks.update(spark.sparkContext.parallelize(points.tolist(), 1), decay, unit)
        ours = moved(ours, points, np.ones(20), k=3, decay=decay if unit == "batches" else decay**20)
        assert np.array(sparks.clusterCenters) == pytest.approx(ours.centres, abs=1e-9)
        assert np.array(sparks.clusterWeights) == pytest.approx(ours.weights, abs=1e-9)


def test_model_is_a_table_and_rows_with_bad_features_are_skipped(spark: SparkSession) -> None:
    good = [(1.0, 2.0), (1.0, 2.0), (50.0, 60.0)]
    bad = [(None, 1.0), (math.nan, 1.0), (1.0, math.inf), (-math.inf, 1.0), (1e200, 1.0)]
    model = trips(spark, [*bad, *good]).transform(op.StreamingKMeans(k=8, features=["lon", "lat"]))
    assert model.columns == ["cluster", "centre", "weight", "op"]
    found = sorted((row.centre, row.weight, row.op) for row in model.collect())
    assert found == [([1.0, 2.0], 2.0, "+"), ([50.0, 60.0], 1.0, "+")]


def test_rows_with_bad_features_of_a_stream_are_counted(
    spark: SparkSession, tmp_path: Path, few_buckets: None
) -> None:
    features = {1: math.nan, 2: math.inf, 3: -math.inf, 4: 1e200}
    chosen = F.coalesce(
        F.create_map(*map(F.lit, chain(*features.items())))[F.col("ms").cast("int")], F.lit(5.0)
    )
    clusters = op.StreamingKMeans(k=3, features="feature")
    stream = Stream(spark, tmp_path, lambda rows: rows.withColumn("feature", chosen).transform(clusters))
    found = stream.send([("a", 0, number) for number in (1, 2, 3, 4, 9, 9)])
    assert [(row["centre"], row["weight"], row["op"]) for row in found] == [([5.0], 2.0, "+")]
    counts = [metrics for each in stream.progress for metrics in each["observedMetrics"].values()]
    assert sum(each.get("bad_feature", 0) for each in counts) == 4


def test_half_life_in_event_time_weighs_older_rows_less(spark: SparkSession) -> None:
    clusters = op.StreamingKMeans(k=1, features="lon", half_life="1 minute", time="at")
    rows = trips(spark, [(4.0, 0.0)] * 3).transform(clusters).collect()
    assert [(row.centre, row.weight) for row in rows] == [([4.0], 1.75)]


def test_half_life_is_a_duration_or_a_number_of_points_or_batches() -> None:
    def forgetting(half_life: Any) -> Any:
        return op.StreamingKMeans(k=1, features="x", half_life=half_life).forgetting

    assert forgetting(None).decay(100, 10**9) == 1
    assert forgetting("1 hour").decay(100, 3_600_000_000) == 0.5
    assert forgetting(timedelta(seconds=1)).decay(100, 2_000_000) == 0.25
    assert forgetting("50 points").decay(100, 0) == 0.25
    assert forgetting("1 batch").decay(100, 0) == 0.5
    assert forgetting("2 batches").decay(100, 0) == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.StreamingKMeans(k=0, features="x"), "k"),
        (lambda: op.StreamingKMeans(k=True, features="x"), "k"),
        (lambda: op.StreamingKMeans(k=10_001, features="x"), "k"),
        (lambda: op.StreamingKMeans(k=2, features=[]), "features"),
        (lambda: op.StreamingKMeans(k=2, features=["x", "x"]), "features"),
        (lambda: op.StreamingKMeans(k=2, features="x", by="centre"), "by"),
        (lambda: op.StreamingKMeans(k=2, features="x", half_life="0 batches"), "half_life"),
        (lambda: op.StreamingKMeans(k=2, features="x", half_life="soon"), "half_life"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("operator", "field"),
    [
        (op.StreamingKMeans(k=2, features="at"), "features"),
        (op.StreamingKMeans(k=2, features="longitude"), "features"),
        (op.StreamingKMeans(k=2, features="lon", by="city"), "by"),
        (op.StreamingKMeans(k=2, features="lon", half_life="1 hour"), "time"),
    ],
)
def test_columns_that_do_not_fit_are_rejected_when_it_is_applied(
    spark: SparkSession, operator: op.StreamingKMeans, field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        trips(spark, []).transform(operator)
    assert rejected.value.field == field
    assert rejected.value.hint
