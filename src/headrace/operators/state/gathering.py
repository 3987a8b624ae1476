"""Batches of rows from Spark, gathered to tables with the types that a step expects."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def gathered(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """Tables of about this many rows."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= rows_max:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, count = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def with_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with these types: Spark puts the session's time zone into the types, and may choose larger types.

    Other columns are left alone, because Arrow can't cast a null struct whose fields are not nullable.
    """
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)
