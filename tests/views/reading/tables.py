"""A version with a column of each type, written by the `Table` sink."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Table
from headrace.views.definition import Definition

SCHEMA = t.StructType(
    [
        t.StructField("id", t.LongType()),
        t.StructField("name", t.StringType()),
        t.StructField("is_open", t.BooleanType()),
        t.StructField("single", t.FloatType()),
        t.StructField("price", t.DecimalType(10, 2)),
        t.StructField("day", t.DateType()),
        t.StructField("at", t.TimestampType()),
        t.StructField("local", t.TimestampNTZType()),
        t.StructField("raw", t.BinaryType()),
        t.StructField("tags", t.ArrayType(t.StringType())),
    ]
)
ARROW = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("is_open", pa.bool_()),
        ("single", pa.float32()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
    ]
)
ROW: dict[str, Any] = {
    "id": 1,
    "name": "it's 100%",
    "is_open": True,
    "single": 0.5,
    "price": Decimal("19.90"),
    "day": date(2026, 11, 18),
    "at": datetime(2026, 11, 18, 6, 30, 0, 120_000, tzinfo=UTC),
    "local": datetime(2026, 11, 18, 7, 30),  # noqa: DTZ001
    "raw": b"\x00\xff",
    "tags": ["a", "b"],
}
NULLS = dict.fromkeys(ROW) | {"id": 2}
TRUE_OF_ROW = (
    "id = 1",
    "name = 'it''s 100%'",
    r"name LIKE '%100\%'",
    "is_open",
    "is_open = TRUE",
    "single = 0.5",
    "price = 19.90",
    "price > 19 AND price < 19.91",
    "day = '2026-11-18'",
    "day >= '2026-11-18T05:00:00'",
    "at = '2026-11-18T06:30:00.12Z'",
    "at = '2026-11-18 07:30:00.120+01:00'",
    "at > '2026-11-18' AND at < '2026-11-19'",
    "local = '2026-11-18T07:30:00'",
    "raw = X'00FF'",
)
"""Conditions that are true for ROW, and not for NULLS."""

DEFINITION = Definition(name="shops", topics=("shops",), key=("id",))


def write(at: str | Path, *, batch: int = 0, rows: tuple[dict[str, Any], ...] = (ROW, NULLS)) -> None:
    fence = Fence(
        job="view.shops.1", checkpoint="c", batch_id=batch, ends=(f'{{"shops":{{"0":{(batch + 1) * 100}}}}}',)
    )
    writer = Table("shops__1", key=["id"], at=at).open("view.shops.1", SCHEMA)
    try:
        table = pa.Table.from_pylist(list(rows), schema=ARROW)
        writer.apply(table.to_batches(), fence, lambda rejected: pytest.fail(str(rejected)))
    finally:
        writer.close()
