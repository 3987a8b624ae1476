"""Which columns a table gets, and whether an existing table can take the rows."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import types
from pyspark.sql.types import StringType, StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.table_schema import (
    JSON_MARK,
    Column,
    ExistingColumn,
    Kind,
    columns_of,
    columns_to_add,
)
from tests.pipeline.sinks.databases import schema_of

ID, N = Column(name="id", kind=Kind.TEXT), Column(name="n", kind=Kind.BIGINT)


def names(columns: list[Column]) -> list[str]:
    return [column.name for column in columns]


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        (types.BooleanType(), Kind.BOOLEAN),
        (types.ByteType(), Kind.TINYINT),
        (types.ShortType(), Kind.SMALLINT),
        (types.IntegerType(), Kind.INTEGER),
        (types.LongType(), Kind.BIGINT),
        (types.FloatType(), Kind.FLOAT),
        (types.DoubleType(), Kind.DOUBLE),
        (types.StringType(), Kind.TEXT),
        (types.VarcharType(9), Kind.TEXT),
        (types.CharType(9), Kind.TEXT),
        (types.NullType(), Kind.TEXT),
        (types.BinaryType(), Kind.BINARY),
        (types.DateType(), Kind.DATE),
        (types.TimestampType(), Kind.TIMESTAMP),
        (types.TimestampNTZType(), Kind.TIMESTAMP_NTZ),
        (types.DayTimeIntervalType(), Kind.DURATION),
        (types.DayTimeIntervalType(types.DayTimeIntervalType.HOUR), Kind.DURATION),
        (StructType().add("x", "long"), Kind.JSON),
        (types.MapType(types.StringType(), types.LongType()), Kind.JSON),
    ],
    ids=str,
)
def test_type_of_spark_has_a_kind(type: Any, kind: Kind) -> None:
    assert columns_of(StructType().add("c", type)) == [Column(name="c", kind=kind)]


def test_decimal_keeps_its_digits_and_marked_text_is_json() -> None:
    schema = schema_of(amount="decimal(10,2)").add("tags", StringType(), metadata={JSON_MARK: True})
    amount = Column(name="amount", kind=Kind.DECIMAL, precision=10, scale=2)
    assert columns_of(schema) == [amount, Column(name="tags", kind=Kind.JSON)]


def test_type_that_no_database_has_is_rejected() -> None:
    with pytest.raises(BadSink, match="can't hold column c of type interval year to month"):
        columns_of(schema_of(c="interval year to month"))


def test_op_and_metadata_are_stored_only_on_request() -> None:
    schema = schema_of(id="string", op="string", _offset="long", n="long")
    assert names(columns_of(schema)) == ["id", "n"]
    assert names(columns_of(schema, keep=["op"])) == ["id", "op", "n"]
    assert names(columns_of(schema, keep=["id"], only=["_offset"])) == ["id", "_offset"]
    assert names(columns_of(schema_of(op="long"))) == ["op"]


def fit(existing: dict[str, ExistingColumn], *wanted: Column, key: tuple[str, ...] = ()) -> list[Column]:
    return columns_to_add(
        "t",
        wanted,
        existing,
        key=key,
        sql_type=lambda column: column.kind.value,
        can_hold=lambda type, column: type == column.kind.value,
    )


def test_new_columns_are_added() -> None:
    existing = {"id": ExistingColumn(type="string", is_optional=False)}
    assert fit(existing, ID, N) == [N]
    assert fit(existing, ID) == []


def test_column_that_the_rows_lack_must_be_optional() -> None:
    existing = {"id": ExistingColumn(type="string", is_optional=True)}
    assert fit(existing, N) == [N]
    with pytest.raises(BadSink, match="the rows have no column id, and table t has"):
        fit({"id": ExistingColumn(type="string", is_optional=False)}, N)


def test_other_type_and_new_key_are_rejected() -> None:
    existing = {"id": ExistingColumn(type="bigint", is_optional=False)}
    with pytest.raises(BadSink, match="column id of table t is bigint, and the rows have string"):
        fit(existing, ID)
    with pytest.raises(BadSink, match="table t has no column n, which the sink has in its key"):
        fit({"id": ExistingColumn(type="string", is_optional=False)}, ID, N, key=("id", "n"))
