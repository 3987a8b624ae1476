"""A topic as a changelog of its rows, with the columns that the plan uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.operators.operator import any_null, column
from headrace.views.sql.dialect import quoted
from headrace.views.sql.failures import FAILED, VALUE, can_fail, failure, tried
from headrace.views.sql.plan import Scan
from headrace.views.topic_columns import KEY
from headrace.views.topic_columns import Column as TopicColumn
from headrace.views.value_forms import is_unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

OP = "op"
OFFSET = "_offset"
_UNCHANGED = "_unchanged_"

Read = Callable[["Scan", "StructType"], "DataFrame"]
"""The rows of a topic with these fields, as `read_topic` returns them."""


def changes(scan: Scan, read: Read) -> DataFrame:
    """Each change of a row: the columns of the plan, `op`, `_offset`, and FAILED if a value may be invalid."""
    rows = _keyed(scan, read(scan, _read_fields(scan)))
    rows = _converted(scan, rows)
    if scan.key:
        rows = rows.where(~any_null(scan.key))
    return rows


def changelog(scan: Scan, read: Read) -> DataFrame:
    """The rows that are added and retracted."""
    from headrace.operators.tables.changelog import Changelog
    from headrace.operators.tables.columns import as_changelog

    rows = changes(scan, read)
    if scan.topic.kind == "events":
        return as_changelog(rows.drop(OFFSET))
    unchanged = {
        name: f"{_UNCHANGED}{name}" for name in scan.names.values() if f"{_UNCHANGED}{name}" in rows.columns
    }
    return rows.transform(Changelog(key=scan.key, order=OFFSET, unchanged=unchanged))


def _used(scan: Scan) -> list[TopicColumn]:
    return [each for each in scan.topic.columns if each.name in scan.used]


def _read_fields(scan: Scan) -> StructType:
    from pyspark.sql.types import StructField, StructType

    # The type of a key whose value may be missing is nullable: a tombstone of a table has no value at all.
    is_required = {name for name in scan.topic.key if scan.topic.kind == "changes"}
    used = _used(scan) or list(scan.topic.columns[:1])
    return StructType(
        [
            StructField(
                each.name,
                _type(each.form.read),
                nullable=each.name not in is_required,
            )
            for each in used
        ]
    )


def _type(ddl: str) -> DataType:
    from pyspark.sql.types import StructType

    row = StructType.fromDDL(f"c {ddl}")
    assert isinstance(row, StructType)
    return row.fields[0].dataType


def _keyed(scan: Scan, rows: DataFrame) -> DataFrame:
    """The rows with `op`, and with the key of a tombstone."""
    from pyspark.sql import functions as F

    topic = scan.topic
    if topic.kind == "changes":
        return rows
    fields = [each.name for each in _used(scan)]
    is_tombstone = F.lit(True)
    for name in fields or [topic.columns[0].name]:
        is_tombstone = is_tombstone & column(name).isNull()
    if topic.kind == "events":
        return rows.where(~is_tombstone).withColumn(OP, F.lit("+"))
    rows = rows.withColumn(OP, F.when(is_tombstone, "d").otherwise("u"))
    if topic.key == (KEY,):
        return rows
    reads = {name: topic.column(name).form.read for name in topic.key}
    if topic.key_is_text:
        (name,) = topic.key
        return rows.withColumn(name, F.coalesce(column(name), column(KEY).try_cast(reads[name])))
    ddl = ", ".join(f"{quoted(name)}: {kind}" for name, kind in reads.items())
    row = F.from_json(column(KEY), f"STRUCT<{ddl}>")
    wrapped = F.from_json(column(KEY), f"STRUCT<payload: STRUCT<{ddl}>>").getField("payload")
    in_key = F.coalesce(wrapped, row)
    return rows.withColumns({name: F.coalesce(column(name), in_key.getField(name)) for name in topic.key})


def _converted(scan: Scan, rows: DataFrame) -> DataFrame:
    """The values under the names of the plan."""
    from pyspark.sql import functions as F

    plain, attempts, marks = [], {}, []
    for each in _used(scan):
        name, source = scan.names[each.name], quoted(each.name)
        sql = each.form.of(source)
        if each.may_be_unchanged:
            marks.append(F.expr(is_unavailable(source)).alias(f"{_UNCHANGED}{name}"))
            sql = f"if({is_unavailable(source)}, null, {sql})"
        if each.form.expression != "{}" and can_fail(rows, sql):
            attempts[name] = (each.name, sql)
        else:
            plain.append(F.expr(sql).alias(name))
    for hidden, name in scan.names.items():
        if hidden in scan.used and hidden.startswith("_") and hidden in rows.columns:
            plain.append(column(hidden).alias(name))
    kept = [column(OP), column(OFFSET)]
    if not attempts:
        return rows.select(*plain, *marks, *kept)
    tries = [tried(rows, sql).alias(f"try_{name}") for name, (_, sql) in attempts.items()]
    raw = [each.name for each in _used(scan)]
    rows = rows.select("*", *tries)
    reasons = [
        F.when(column(f"try_{name}").isNull() & (F.col(OP) != "d"), failure(raw, {}, f"column {of}"))
        for name, (of, _) in attempts.items()
    ]
    values = [column(f"try_{name}").getField(VALUE).alias(name) for name in attempts]
    return rows.select(*plain, *values, *marks, *kept, F.coalesce(*reasons).alias(FAILED))
