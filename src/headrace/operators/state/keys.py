"""The columns in which rows reach the core: hashes of the key, the time in microseconds, keys, values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructType, TimestampType

from headrace.operators.operator import BadOperator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def arrow_type(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


def keyed_columns(
    rows: DataFrame, keys: Sequence[str], time: str, inputs: Mapping[int, str], *, operator: str
) -> tuple[list[Column], dict[int, pa.DataType]]:
    """`h1`, `h2`, `time`, `k0`…, and `a0`… for the inputs; and the types of the inputs' values."""
    columns = [
        *hash_columns(rows, keys, operator=operator),
        F.unix_micros(F.col(f"`{time}`").cast(TimestampType())).alias("time"),
        *(F.col(f"`{name}`").alias(f"k{number}") for number, name in enumerate(keys)),
    ]
    values: dict[int, pa.DataType] = {}
    for number, text in inputs.items():
        column = F.expr(text).alias(f"a{number}")
        try:
            values[number] = arrow_type(rows.select(column).schema[0].dataType)
        except AnalysisException as error:
            raise BadOperator(
                operator, "aggregate", f"has {text!r}, which Spark can't work out", hint=_reason(error)
            ) from error
        columns.append(column)
    return columns, values


def hash_columns(rows: DataFrame, keys: Sequence[str], *, operator: str) -> list[Column]:
    """`h1` and `h2`: of equal keys of one type the same, on whichever DataFrame."""
    hashed = [part for name in keys for part in _hashed(rows, name, operator)] or [F.lit(0)]
    return [F.xxhash64(*hashed).alias("h1"), F.xxhash64(F.lit("headrace"), *hashed).alias("h2")]


def _hashed(rows: DataFrame, name: str, operator: str) -> list[Column]:
    """What tells one key from another. Spark's hash passes over a null, so that it is said apart."""
    kind: Any = rows.schema[name].dataType
    column = F.col(f"`{name}`")
    if isinstance(kind, ArrayType | MapType | StructType):
        raise BadOperator(
            operator,
            "by",
            f"names column {name!r}, which is {kind.simpleString()}",
            hint="keys are plain values; take its fields as columns, or a text of it (to_json)",
        )
    if isinstance(kind, DoubleType | FloatType):
        column = column + F.lit(0.0).cast(kind)  # there is but one zero, as in GROUP BY
    return [column.isNull(), column]


def _reason(error: AnalysisException) -> str:
    return str(error).splitlines()[0][:300]
