"""The input columns of the core: equal keys have equal hashes, and other keys others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.operator import BadOperator
from headrace.operators.state.keys import evaluated_type, hash_columns, keyed_columns
from tests.operators.streams import EPOCH_S, bounded


def test_equal_keys_have_equal_hashes_and_nulls_have_a_place(spark: SparkSession) -> None:
    keys: list[tuple[Any, ...]] = [
        ("a", None, 0.0),
        ("a", None, -0.0),
        (None, "a", 0.0),
        ("a", "", 0.0),
        ("a", None, None),
        (None, None, 0.0),
    ]
    rows = spark.createDataFrame(keys, "one string, other string, number double")
    hashed = rows.select(*hash_columns(rows, rows.columns, operator="Tumbling")).collect()
    assert hashed[0] == hashed[1], "both zeros are one key"
    for name in ("h1", "h2"):
        assert len({row[name] for row in hashed}) == len(keys) - 1
    assert all(row.h1 != row.h2 for row in hashed)


def test_rows_without_a_key_are_together(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 0, 1), ("bob", 1, 2)])
    assert rows.select(*hash_columns(rows, (), operator="Tumbling")).distinct().count() == 1


def test_the_core_gets_hashes_time_keys_and_values(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1.5, 7)]).withColumnRenamed("user", "user.name")
    columns, kinds = keyed_columns(rows, ["user.name"], "at", {1: "ms * 2"}, operator="Tumbling")
    (row,) = rows.select(*columns).collect()
    assert row.__fields__ == ["h1", "h2", "time", "k0", "a1"]
    assert tuple(row)[2:] == (EPOCH_S * 1_000_000 + 1_500_000, "ann", 14)
    assert kinds == {1: pa.int64()}


def test_nested_keys_and_unknown_columns_are_rejected(spark: SparkSession) -> None:
    rows = bounded(spark, []).withColumn("pair", F.struct("user", "ms"))
    with pytest.raises(BadOperator, match="names column 'pair'") as rejected:
        hash_columns(rows, ["pair"], operator="Tumbling")
    assert rejected.value.field == "by"
    with pytest.raises(BadOperator, match="is 'x', which Spark can't evaluate") as rejected:
        evaluated_type(rows, F.expr("nothing + 1"), operator="Tumbling", field="gap", problem="is 'x'")
    assert "nothing" in rejected.value.hint
