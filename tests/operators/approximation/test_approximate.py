"""Sketches over all time on Spark, beside exact aggregates, and settings that are rejected."""

from __future__ import annotations

from collections.abc import Callable

import datasketches
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.approximation.clicks import clicks


def test_sketches_of_few_values_are_the_exact_aggregates_of_spark(spark: SparkSession) -> None:
    found = clicks(spark).transform(
        op.Approximate(
            by="country",
            aggregate={
                "users": "distinct(user)",
                "p90": "percentile(ms, 0.9)",
                "rows": "count(*)",
                "per_user": "count(*) / distinct(user)",
            },
        )
    )
    expected = (
        clicks(spark)
        .groupBy("country")
        .agg(
            F.countDistinct("user").alias("users"),
            F.percentile("ms", 0.9).alias("p90"),
            F.count("*").alias("rows"),
            (F.count("*") / F.countDistinct("user")).alias("per_user"),
            F.lit("+").alias("op"),
        )
    )
    assert sorted(found.collect()) == sorted(expected.collect())


def test_count_of_all_rows_needs_no_column(spark: SparkSession) -> None:
    counted = clicks(spark).transform(op.Approximate(aggregate={"rows": "count(*)"}))
    assert [row.rows for row in counted.collect()] == [clicks(spark).count()]


def test_sketch_columns_are_those_of_spark_and_of_datasketches(spark: SparkSession) -> None:
    aggregates = {"users": "theta_sketch(id)", "ms": "tdigest_sketch(ms)", "urls": "frequent_sketch(url)"}
    row = clicks(spark, 20_000).transform(op.Approximate(aggregate=aggregates)).collect()[0]
    sketch = datasketches.compact_theta_sketch.deserialize(bytes(row.users))
    assert sketch.get_estimate() == pytest.approx(20_000, rel=0.05)
    assert datasketches.tdigest_double.deserialize(bytes(row.ms)).get_quantile(0.5) == pytest.approx(
        48, abs=1
    )
    urls = datasketches.frequent_strings_sketch.deserialize(bytes(row.urls))
    assert urls.get_estimate("/100") == 201
    spark_sketch = clicks(spark, 20_000).selectExpr("theta_sketch_agg(xxhash64(id))").collect()[0][0]
    theirs = datasketches.compact_theta_sketch.deserialize(bytes(spark_sketch))
    both = datasketches.theta_union(lg_k=12)
    both.update(sketch)
    both.update(theirs)
    # The same hashes: the union has no more values than each.
    assert both.get_result().get_estimate() == pytest.approx(theirs.get_estimate(), rel=0.05)
    assert len(set(sketch) & set(theirs)) >= 4_096


def test_count_min_and_hll_columns_are_those_of_spark_and_of_datasketches(spark: SparkSession) -> None:
    aggregates = {"ids": "hll_sketch(id)", "urls": "count_min_sketch(url)", "users": "count_min_sketch(user)"}
    row = clicks(spark, 20_000).transform(op.Approximate(aggregate=aggregates)).collect()[0]
    assert datasketches.count_min_sketch.deserialize(bytes(row.urls)).get_estimate("/100") == 201
    assert datasketches.count_min_sketch.deserialize(bytes(row.users)).total_weight == 20_000
    merged = spark.createDataFrame([(row.ids,)], "ids binary").selectExpr("hll_sketch_estimate(ids)")
    assert merged.collect()[0][0] == pytest.approx(20_000, rel=0.05)
    spark_sketch = clicks(spark, 20_000).selectExpr("hll_sketch_agg(xxhash64(id))").collect()[0][0]
    both = datasketches.hll_union(12)
    for each in (row.ids, spark_sketch):
        both.update(datasketches.hll_sketch.deserialize(bytes(each)))
    # The same hashes: the union has no more values than each.
    ours = datasketches.hll_sketch.deserialize(bytes(row.ids))
    assert both.get_result().get_estimate() == pytest.approx(ours.get_estimate())


def test_count_min_sketch_of_other_values_than_integers_and_texts_is_rejected(spark: SparkSession) -> None:
    with pytest.raises(op.BadOperator, match="double, not integers or texts"):
        clicks(spark, 10).transform(op.Approximate(aggregate={"n": "count_min_sketch(cast(id as double))"}))


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Approximate(aggregate={}), "aggregate"),
        (lambda: op.Approximate(aggregate={"x": "collect(ms)"}), "aggregate"),
        (lambda: op.Approximate(aggregate={"x": "last(ms)"}), "aggregate"),
        (lambda: op.Approximate(aggregate={"x": "count(distinct ms)"}), "aggregate"),
        (lambda: op.Approximate(aggregate={"x": "percentile(ms, 2)"}), "aggregate"),
        (lambda: op.Approximate(by="x", aggregate={"x": "count(*)"}), "by"),
        (lambda: op.Approximate(by="op", aggregate={"x": "count(*)"}), "by"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_column_that_does_not_exist_is_rejected_when_it_is_applied(spark: SparkSession) -> None:
    for operator, field in (
        (op.Approximate(by="usr", aggregate={"n": "count(*)"}), "by"),
        (op.Approximate(aggregate={"n": "distinct(usr)"}), "aggregate"),
        (op.Approximate(aggregate={"n": "tdigest_sketch(user)"}), "aggregate"),
    ):
        with pytest.raises(op.BadOperator) as rejected:
            clicks(spark).transform(operator)
        assert rejected.value.field == field
