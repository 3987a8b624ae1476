"""Orders and users, as tables for operators on Spark."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal

from pyspark.sql import DataFrame, SparkSession

ORDERS = "id bigint, user string, amount decimal(10,2), at timestamp, tags array<string>, where struct<x:int,y:int>"
USERS = "user string, city string"


def orders(spark: SparkSession) -> DataFrame:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return spark.createDataFrame(
        [
            (1, "ann", Decimal("9.90"), noon, ["a", None], (1, None)),
            (2, "ann", Decimal("5.00"), noon, [None, "a"], (None, 1)),
            (2, "ann", Decimal("5.00"), noon, [None, "a"], (None, 1)),
            (3, "bob", None, None, None, None),
            (4, None, Decimal("1.00"), noon, [], (0, 0)),
            (5, "eve", Decimal("2.50"), noon, ["b"], (2, 2)),
        ],
        ORDERS,
    )


def users(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(
        [("ann", "Rome"), ("ann", "Oslo"), ("bob", "Oslo"), (None, "Lima"), ("zoe", "Bonn")], USERS
    )


def counted(rows: DataFrame) -> Counter[str]:
    """Without the last digits of floats, which depend on the order of addition."""
    return Counter(
        str(
            [
                (name, round(value, 9) if isinstance(value, float) else value)
                for name, value in sorted(row.asDict(recursive=True).items())
            ]
        )
        for row in rows.collect()
    )
