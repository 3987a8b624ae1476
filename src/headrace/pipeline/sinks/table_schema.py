"""The columns of a table: those of a Spark schema, and whether an existing table can take them.

Pure: the databases describe the existing columns, and add those that are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from msgspec import Struct
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.changes import METADATA_PREFIX, OP

JSON_MARK = "headrace.json"
"""In the metadata of a text column that `Table.prepare` wrote from a struct, an array or a map."""


class Kind(Enum):
    """What a column holds, whichever database keeps it, by the name of Spark's type."""

    BOOLEAN = "boolean"
    TINYINT = "tinyint"
    SMALLINT = "smallint"
    INTEGER = "int"
    BIGINT = "bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "string"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    DURATION = "interval day to second"
    JSON = "json"


SUMMABLE = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)


class Column(Struct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    precision: int = 0
    """Digits of a decimal in all, and `scale` of them behind the point."""
    scale: int = 0


class ExistingColumn(Struct, frozen=True, kw_only=True):
    """A column as the database describes it."""

    type: str
    is_optional: bool
    """Whether a row may omit it, because the database has a default or a sequence."""


def columns_of(schema: StructType, *, keep: Sequence[str] = (), only: Sequence[str] = ()) -> list[Column]:
    """The columns to store of rows of this schema: `only` those if it is given, else all but `op` and metadata."""
    fields = {field.name: field for field in schema.fields}
    if len(fields) < len(schema.fields):
        raise BadSink(
            f"two columns have the same name: {', '.join(schema.names)}",
            hint="rename one of them with .alias()",
        )
    return [
        column_of(field)
        for name, field in fields.items()
        if name in keep or (name in only if only else not _is_metadata(field))
    ]


def is_nested(kind: DataType) -> bool:
    """Whether a column of this type is stored as JSON."""
    return kind.typeName() in {"array", "map", "struct"}


def _is_metadata(field: StructField) -> bool:
    is_op = field.name == OP and field.dataType.typeName() == "string"
    return is_op or field.name.startswith(METADATA_PREFIX)


_KINDS = {kind.value: kind for kind in Kind}
_KINDS_OF_FAMILIES = {
    "varchar": Kind.TEXT,
    "char": Kind.TEXT,
    "void": Kind.TEXT,
    "daytimeinterval": Kind.DURATION,
}


def column_of(field: StructField) -> Column:
    name, kind = field.name, field.dataType
    if is_nested(kind) or field.metadata.get(JSON_MARK):
        return Column(name=name, kind=Kind.JSON)
    if isinstance(kind, DecimalType):
        return Column(name=name, kind=Kind.DECIMAL, precision=kind.precision, scale=kind.scale)
    found = _KINDS_OF_FAMILIES.get(kind.typeName()) or _KINDS.get(kind.simpleString())
    if found is None:
        raise BadSink(
            f"a table can't hold column {name} of type {kind.simpleString()}",
            hint=f"cast it to a string first: .withColumn({name!r}, col({name!r}).cast('string'))",
        )
    return Column(name=name, kind=found)


def columns_to_add(
    table: str,
    wanted: Sequence[Column],
    existing: Mapping[str, ExistingColumn],
    *,
    key: Sequence[str],
    sql_type: Callable[[Column], str],
    can_hold: Callable[[str, Column], bool],
) -> list[Column]:
    """The columns that an existing table lacks; raises if any other change is needed."""
    for column in wanted:
        there = existing.get(column.name)
        if there is not None and not can_hold(there.type, column):
            raise BadSink(
                f"column {column.name} of table {table} is {there.type}, and the rows have {sql_type(column)} there",
                hint=f"change the table's column to {sql_type(column)}, cast the rows' column, "
                "or write to a table of another name",
            )
    names = {column.name for column in wanted}
    missing = [name for name, each in existing.items() if name not in names and not each.is_optional]
    if missing:
        raise BadSink(
            f"the rows have no column {', '.join(missing)}, and table {table} has",
            hint="give the rows that column, drop it from the table, give it a default there, "
            "or write to a table of another name",
        )
    to_add = [column for column in wanted if column.name not in existing]
    new_keys = [column.name for column in to_add if column.name in key]
    if new_keys:
        raise BadSink(
            f"table {table} has no column {', '.join(new_keys)}, which the sink has in its key",
            hint="a key can't change under the rows that are there: write to a table of another name",
        )
    return to_add
