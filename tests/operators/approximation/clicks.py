"""Rows for approximate operators."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def clicks(spark: SparkSession, count: int = 2_000) -> DataFrame:
    """Clicks of 20 users on 45 URLs, the first URLs more often than the others."""
    return spark.range(count).selectExpr(
        "id",
        "concat('user', id % 20) as user",
        "concat('/', cast(sqrt(id) as int)) as url",
        "if(id % 2 = 0, 'FR', 'DE') as country",
        "cast(id % 97 as double) as ms",
        "timestamp_seconds(1772000000 + id) as at",
    )
