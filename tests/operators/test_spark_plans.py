"""Parts of a plan that replace others."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.spark_plans import (
    analyzed,
    children_of,
    frame_of,
    kind_of,
    with_children,
    with_columns_of,
)


def test_replaced_part_keeps_the_columns_of_the_steps_above_it(spark: SparkSession) -> None:
    rows = spark.range(3).select(F.col("id").alias("n", metadata={"unit": "m"}))
    plan = analyzed(rows.where("n > 0"))
    assert kind_of(plan) == "Filter"
    other = with_columns_of(children_of(plan)[0], analyzed(spark.range(2, 5).toDF("n")), spark)
    replaced = frame_of(with_children(plan, [other], spark), spark)
    assert [row["n"] for row in replaced.collect()] == [2, 3, 4]
    assert replaced.schema["n"].metadata == {"unit": "m"}


def test_columns_of_other_names_or_types_replace_nothing(spark: SparkSession) -> None:
    rows = analyzed(spark.range(3).toDF("n"))
    assert with_columns_of(rows, analyzed(spark.range(3).toDF("m")), spark) is None
    assert with_columns_of(rows, analyzed(spark.range(3).selectExpr("cast(id AS int) AS n")), spark) is None
    assert with_columns_of(rows, analyzed(spark.range(3).selectExpr("id AS n", "1 AS one")), spark) is None
