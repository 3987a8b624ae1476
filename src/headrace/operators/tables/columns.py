"""Changelogs as Spark DataFrames: the columns of the table, the meaning of `op`, and the hashes of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.emitted_times import panes_of
from headrace.operators.operator import BadOperator, column
from headrace.operators.tables.weighted import ADDED, OP, RETRACTED
from headrace.plan_names import CHANGELOG

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEFORE = "before"
"""The column of a change event with the row before the change."""

METADATA_PREFIX = "_"
"""The prefix of columns with metadata of the source, which are not part of a row."""

DELETIONS = ("d", RETRACTED)
UPSERTS = ("c", "u", "r", ADDED)


def has_op(rows: DataFrame, *, operator: str) -> bool:
    from pyspark.sql.types import StringType

    if OP not in rows.columns:
        return False
    kind = rows.schema[OP].dataType
    if not isinstance(kind, StringType):
        raise BadOperator(
            operator,
            OP,
            f"is a column of type {kind.simpleString()}, but a changelog needs a string (+ or -)",
            hint='rename the column: rows.withColumnRenamed("op", …)',
        )
    return True


def is_changelog(rows: DataFrame) -> bool:
    return OP in rows.columns and bool(rows.schema[OP].metadata.get(CHANGELOG))


def own_columns(rows: DataFrame, *, keep: Sequence[str] = ()) -> list[str]:
    """The columns of the row: all except `op`, `before` and the metadata of the source."""
    from pyspark.sql.types import StructType

    is_event = OP in rows.columns and BEFORE in rows.columns
    hidden = {OP} if OP in rows.columns else set()
    if is_event and isinstance(rows.schema[BEFORE].dataType, StructType):
        hidden.add(BEFORE)
    return [
        name
        for name in rows.columns
        if name in keep or not (name in hidden or name.startswith(METADATA_PREFIX))
    ]


def fields_of(rows: DataFrame, names: Sequence[str]) -> list[pa.Field]:
    from headrace.operators.state.keys import arrow_type

    return [pa.field(name, arrow_type(rows.schema[name].dataType)) for name in names]


def kept_for(operator: str, fields: Sequence[pa.Field], **settings: object) -> str:
    """A text of everything that the state depends on."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{operator}({arguments}) of {', '.join(f'{each.name} {each.type}' for each in fields)}"


def row_parts(rows: DataFrame, names: Sequence[str]) -> list[Column]:
    """The columns that identify a row. Nested values are compared as JSON with explicit nulls."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts = []
    for name in names:
        own = column(name)
        if isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType):
            own = F.to_json(own, {"ignoreNullFields": "false"})
        parts += [own.isNull(), own]
    return parts


def require_retractions(rows: DataFrame, *, operator: str) -> None:
    """Raise if windows before the operator emit several panes without retractions: each would be counted."""
    panes = panes_of(rows) if rows.isStreaming else "one"
    if panes not in ("one", "retracting"):
        raise BadOperator(
            operator,
            OP,
            f"is of windows with {panes} panes, and each pane of a window would be counted",
            hint='set panes="retracting" in the trigger of that window',
        )


def weight(rows: DataFrame, *, operator: str) -> Column:
    """1 for a row that is added, -1 for a row that is retracted. Rows without `op` are added."""
    from pyspark.sql import functions as F

    one = F.lit(1).cast("bigint")
    if not has_op(rows, operator=operator):
        return one.alias("weight")
    if BEFORE in own_columns(rows, keep=[BEFORE]) and BEFORE not in own_columns(rows):
        raise BadOperator(
            operator,
            OP,
            "is the op of change events (the rows have a column before), not + or -",
            hint='convert the rows: rows.transform(op.Changelog(key="id")), or pass the key to the join',
        )
    op = F.col(OP)
    problem = F.concat(
        F.lit(f"{operator}: a row has op '"),
        op,
        F.lit(f"', but the op of a changelog is {ADDED} or {RETRACTED}. "),
        F.lit('For changes by key, name the primary key (key="id"), or use op.Changelog(key="id")'),
    )
    return (
        F.when(op.isNull() | (op == ADDED), one)
        .when(op == RETRACTED, -one)
        .otherwise(F.raise_error(problem).cast("bigint"))
        .alias("weight")
    )


def as_changelog(rows: DataFrame) -> DataFrame:
    """The rows, marked as a changelog."""
    return rows.withColumn(OP, column(OP).alias(OP, metadata={CHANGELOG: True}))
