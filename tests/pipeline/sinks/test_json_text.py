"""Nested columns become the same JSON here as in Spark."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.sinks.json_text import JSON_OPTIONS, json_column

NESTED = (
    "whole STRUCT<n: BIGINT, x: DOUBLE, is_so: BOOLEAN, text: STRING, bytes: BINARY, day: DATE, at: TIMESTAMP, "
    "local: TIMESTAMP_NTZ, price: DECIMAL(20,2), list: ARRAY<STRUCT<a: INT>>, map: MAP<INT, ARRAY<STRING>>>"
)


def test_nested_columns_become_the_json_of_spark(spark: SparkSession) -> None:
    at = datetime(2026, 11, 15, 13, 59, 0, 120_003, tzinfo=UTC)
    full: dict[str, Any] = {
        "n": 2**60,
        "x": 0.1,
        "is_so": True,
        "text": 'Ünï "quoted"\n\\ 👩',
        "bytes": b"\x00\xff",
        "day": date(2026, 11, 15),
        "at": at,
        "local": at.replace(tzinfo=None),
        "price": Decimal("123456789012345678.90"),
        "list": [{"a": 1}, {"a": None}, None],
        "map": {1: ["a", None], 2: None},
    }
    empty: dict[str, Any] = dict.fromkeys(full)
    strange = {**empty, "x": math.nan, "text": "", "list": [], "map": {}, "price": Decimal("0.00")}
    rows = spark.createDataFrame([(full,), (empty,), (strange,), (None,)], NESTED)
    by_spark = [each[0] for each in rows.select(F.to_json("whole", JSON_OPTIONS)).collect()]
    here = json_column(rows.toArrow()["whole"]).to_pylist()
    assert here[3] is by_spark[3] is None

    def parsed(texts: list[str]) -> list[object]:
        return [json.loads(text, parse_float=Decimal) for text in texts]

    assert parsed(here[:3]) == parsed(by_spark[:3])
