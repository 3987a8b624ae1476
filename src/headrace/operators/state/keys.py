"""The input columns of the core: hashes of the key, the time in microseconds, keys, values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkTypeError
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    MapType,
    NullType,
    StructType,
    UserDefinedType,
    VariantType,
)

from headrace.operators.operator import BadOperator, column, time_us

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_NOT_IN_CORE = (GeographyType, GeometryType, NullType, UserDefinedType, VariantType)
"""Types whose Arrow form has another meaning or no values."""


def arrow_type(kind: DataType) -> pa.DataType:
    return to_arrow_type(kind, timezone="UTC")


def keyed_columns(
    rows: DataFrame, keys: Sequence[str], time: str, inputs: Mapping[int, str], *, operator: str
) -> tuple[list[Column], dict[int, pa.DataType]]:
    """`h1`, `h2`, `time`, `k0`…, and `a0`… for the inputs; and the types of the inputs' values."""
    columns = [
        *hash_columns(rows, keys, operator=operator),
        time_us(time).alias("time"),
        *(F.col(f"`{name}`").alias(f"k{number}") for number, name in enumerate(keys)),
    ]
    given, values = input_columns(rows, inputs, operator=operator)
    return columns + given, values


def input_columns(
    rows: DataFrame, inputs: Mapping[int, str], *, operator: str
) -> tuple[list[Column], dict[int, pa.DataType]]:
    """The aggregated values as columns `a0`…, and their types by the number of the aggregate."""
    columns, kinds = [], {}
    for number, text in inputs.items():
        given = F.expr(text).alias(f"a{number}")
        kind = evaluated_type(rows, given, operator=operator, field="aggregate", problem=f"has {text!r}")
        kinds[number] = _value_type(kind, text, operator=operator)
        columns.append(given)
    return columns, kinds


def is_in_core(kind: DataType) -> bool:
    """Whether the core has values of this type: it does not have all types of Spark."""
    if _has_part(kind, _NOT_IN_CORE):
        return False
    try:
        arrow_type(kind)
    except PySparkTypeError:
        return False
    return True


def _value_type(kind: DataType, text: str, *, operator: str) -> pa.DataType:
    """The type of aggregated values in the core."""
    if is_in_core(kind):
        return arrow_type(kind)
    raise BadOperator(
        operator,
        "aggregate",
        f"has {text!r}, which is {kind.simpleString()}, a type that is not supported here",
        hint=f'convert it: "cast({text} as string)"',
    )


def _has_part(kind: DataType, unwanted: tuple[type[DataType], ...]) -> bool:
    """Whether the type, or a type inside it, is one of the unwanted ones."""
    inside: list[DataType] = []
    if isinstance(kind, StructType):
        inside = [each.dataType for each in kind]
    elif isinstance(kind, ArrayType):
        inside = [kind.elementType]
    elif isinstance(kind, MapType):
        inside = [kind.keyType, kind.valueType]
    return isinstance(kind, unwanted) or any(_has_part(each, unwanted) for each in inside)


def evaluated_type(
    rows: DataFrame, expression: Column, *, operator: str, field: str, problem: str
) -> DataType:
    """The type of an expression on the rows. `problem` begins the message if Spark rejects it."""
    try:
        return rows.select(expression).schema[0].dataType
    except AnalysisException as error:
        reason = str(error).splitlines()[0][:300]
        raise BadOperator(operator, field, f"{problem}, which Spark can't evaluate", hint=reason) from error


def hash_columns(rows: DataFrame, keys: Sequence[str], *, operator: str) -> list[Column]:
    """`h1` and `h2`: equal for equal keys of one type, in any DataFrame."""
    return hashes(key_parts(rows, keys, operator=operator, field="by"), "h")


def hashes(parts: Sequence[Column], prefix: str) -> list[Column]:
    """Two hashes of 64 bits each."""
    hashed = list(parts) or [F.lit(0)]
    return [
        F.xxhash64(*hashed).alias(f"{prefix}1"),
        F.xxhash64(F.lit("headrace"), *hashed).alias(f"{prefix}2"),
    ]


def key_parts(rows: DataFrame, names: Sequence[str], *, operator: str, field: str) -> list[Column]:
    """The columns that identify a key. Spark's hash ignores nulls, so each column comes with a null flag."""
    parts = []
    for name in names:
        require_plain(rows, name, operator=operator, field=field)
        kind: Any = rows.schema[name].dataType
        own = column(name)
        if isinstance(kind, DoubleType | FloatType):
            own = own + F.lit(0.0).cast(kind)  # -0.0 and 0.0 are one key, as in GROUP BY
        parts += [own.isNull(), own]
    return parts


def require_plain(rows: DataFrame, name: str, *, operator: str, field: str) -> None:
    kind = rows.schema[name].dataType
    if isinstance(kind, ArrayType | MapType | StructType):
        raise BadOperator(
            operator,
            field,
            f"names column {name!r}, which is {kind.simpleString()}",
            hint="a key is a scalar: select the fields as columns, or use to_json",
        )
