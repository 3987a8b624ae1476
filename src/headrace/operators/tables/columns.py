"""Changelogs as Spark sees them: which columns are a row's own, what `op` says, and the hashes that rows travel
with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.operator import BadOperator, column
from headrace.operators.tables.weighted import ADDED, OP, TAKEN_BACK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEFORE = "before"
"""The column in which change events of a database tell the row as it was."""

METADATA_PREFIX = "_"
"""Columns that begin so are the source's own bookkeeping, and no part of a row."""

CHANGELOG = "headrace.changelog"
"""Metadata of the column `op`: the rows are a changelog already."""

DELETIONS = ("d", TAKEN_BACK)
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
            f"is a column of type {kind.simpleString()}, and would say whether a row is added or taken back",
            hint='rename the column: rows.withColumnRenamed("op", …)',
        )
    return True


def is_changelog(rows: DataFrame) -> bool:
    return OP in rows.columns and bool(rows.schema[OP].metadata.get(CHANGELOG))


def own_columns(rows: DataFrame, *, keep: Sequence[str] = ()) -> list[str]:
    """Those of a row itself: neither `op` and `before`, nor what the source tells about the record."""
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
    """All that the state depends on, in a text."""
    said = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{operator}({said}) of {', '.join(f'{each.name} {each.type}' for each in fields)}"


def row_parts(rows: DataFrame, names: Sequence[str]) -> list[Column]:
    """What tells one row from another. Nested values by their text, in which a null has a place."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    parts = []
    for name in names:
        own = column(name)
        if isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType):
            own = F.to_json(own, {"ignoreNullFields": "false"})
        parts += [own.isNull(), own]
    return parts


def weight(rows: DataFrame, *, operator: str) -> Column:
    """1 for a row that is added, -1 for one that is taken back. Rows that say nothing are added."""
    from pyspark.sql import functions as F

    one = F.lit(1).cast("bigint")
    if not has_op(rows, operator=operator):
        return one.alias("weight")
    if BEFORE in own_columns(rows, keep=[BEFORE]) and BEFORE not in own_columns(rows):
        raise BadOperator(
            operator,
            OP,
            "is that of change events of a table (there is a column before), and not + or -",
            hint='make a changelog of them: rows.transform(op.Changelog(key="id")); a join takes their key too',
        )
    op = F.col(OP)
    problem = F.concat(
        F.lit(f"{operator}: a row has op '"),
        op,
        F.lit(f"', and a changelog has {ADDED} and {TAKEN_BACK} only. "),
        F.lit('For changes by key, name the primary key (key="id"), or use op.Changelog(key="id")'),
    )
    return (
        F.when(op.isNull() | (op == ADDED), one)
        .when(op == TAKEN_BACK, -one)
        .otherwise(F.raise_error(problem).cast("bigint"))
        .alias("weight")
    )


def as_changelog(rows: DataFrame) -> DataFrame:
    """Marked as what it is."""
    return rows.withColumn(OP, column(OP).alias(OP, metadata={CHANGELOG: True}))
