"""The staging table of a batch in PostgreSQL: its columns, and a batch's rows in them.

Tasks copy their rows into it, and the driver merges them into the table. Its types are those of the rows, not those of
the table, so that the table alone rejects rows. A row that PostgreSQL can't even stage, such as a text with NUL, is
staged with its key, its bytes and the reason: it still is the last row of its key.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.changes import OFFSET, OP, RETRACTIONS
from headrace.pipeline.sinks.table_schema import Column, Kind, column_of
from headrace.pipeline.sinks.table_store import TableShape

RANK, ATTEMPT, ORDER, REASON, WHOLE = "rank", "attempt", "ordering", "reason", "whole"

REASON_IN_ROWS = "__headrace_reason"

TASK_ROWS_BITS = 40
"""A rank is the number of the task, and the number of the row there in so many bits: as the rows would be collected."""

_AS_INTEGERS = frozenset(
    {
        Kind.BOOLEAN,
        Kind.TINYINT,
        Kind.SMALLINT,
        Kind.INTEGER,
        Kind.BIGINT,
        Kind.DATE,
        Kind.TIMESTAMP,
        Kind.TIMESTAMP_NTZ,
        Kind.DURATION,
    }
)
_AS_BYTES = frozenset({Kind.TEXT, Kind.BINARY, Kind.JSON})


class StageLayout(Struct, frozen=True, kw_only=True):
    """What the rows of one table become in a staging table."""

    shape: TableShape
    op: Column | None
    """The kind of change, if rows are deleted by it."""
    order: Column | None
    """The column that orders the rows of a key."""

    @classmethod
    def of(cls, shape: TableShape, schema: StructType, order_by: str | None) -> StageLayout:
        """For rows of this schema, which `Table.prepare` has returned."""
        op = order = None
        if shape.replaces_rows:
            name = order_by or OFFSET
            order = column_of(schema[name]) if name in schema.names else None
            is_text = OP in schema.names and column_of(schema[OP]).kind is Kind.TEXT
            op = column_of(schema[OP]) if is_text else None
        return cls(shape=shape, op=op, order=order)

    @property
    def columns(self) -> list[Column]:
        """Of the rows, in their staged order: those of the table, and `op`."""
        is_stored = self.op is None or self.op.name in self.shape.names
        return [*self.shape.columns, *([] if is_stored or self.op is None else [self.op])]

    @property
    def has_own_order(self) -> bool:
        """Whether rows have a column for their order only."""
        return self.order is not None and self.order.name not in self.shape.names

    def staged_name(self, name: str) -> str:
        """Of a column: any name of the rows could be one of the stage's own."""
        return f"c{[column.name for column in self.columns].index(name)}"

    # Rows

    def staged(self, rows: pa.Table, ranks: np.ndarray, attempt: int) -> pa.Table:
        names = [column.name for column in self.columns]
        staged = rows.select(names).rename_columns([self.staged_name(name) for name in names])
        if self.op is not None and self.op.name not in self.shape.names:
            place = names.index(self.op.name)
            staged = staged.set_column(place, staged.column_names[place], _without_nul(staged[place]))
        if self.order is not None:
            staged = staged.append_column(ORDER, order_values(rows[self.order.name]))
        staged = staged.append_column(RANK, pa.array(ranks))
        return staged.append_column(ATTEMPT, pa.repeat(pa.scalar(attempt, pa.int64()), len(rows)))

    def marked(self, rows: pa.Table, ranks: np.ndarray, attempt: int, reasons: Sequence[str]) -> pa.Table:
        """Rows that can't be staged as they are, with their keys only."""
        whole = [packed(rows.slice(position, 1)) for position in range(len(rows))]
        for name in self.shape.names:
            if name not in self.shape.key:
                place = rows.schema.get_field_index(name)
                rows = rows.set_column(place, rows.schema.field(place), pa.nulls(len(rows), rows[name].type))
        staged = self.staged(rows, ranks, attempt)
        staged = staged.append_column(REASON, pa.array([reason.replace("\0", "") for reason in reasons]))
        return staged.append_column(WHOLE, pa.array(whole, pa.binary()))

    def original(self, found: dict[str, Any]) -> dict[str, Any]:
        """A row as it was, of its values in the stage."""
        if found[WHOLE] is not None:
            (row,) = unpacked(found[WHOLE]).to_pylist()
            return dict(row)
        row = {column.name: found[self.staged_name(column.name)] for column in self.columns}
        if self.order is not None and self.has_own_order:
            row[self.order.name] = _order_value(found[ORDER], self.order)
        return row


def stages_of(job: str, table: str) -> str:
    """What the names of the staging tables of a job and table begin with."""
    digest = hashlib.blake2b(f"{job}\0{table}".encode(), digest_size=8).hexdigest()
    return f"headrace_stage_{digest}_"


def stage_name(shape: TableShape, fence: Fence) -> str:
    """Another one for every try of a batch: tasks of an earlier one may still write."""
    return f"{stages_of(shape.job, shape.name)}{fence.batch_id}_{uuid.uuid4().hex[:8]}"


def packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def order_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values that PostgreSQL can stage and that sort as those of Arrow do."""
    kind = column.type
    if pa.types.is_boolean(kind):
        return column.cast(pa.int8()).cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_integer(kind):
        return column.cast(pa.int64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.binary())
    return column


def order_type(order: Column) -> str:
    if order.kind in _AS_INTEGERS:
        return "bigint"
    if order.kind in _AS_BYTES:
        return "bytea"
    return "numeric" if order.kind is Kind.DECIMAL else "double precision"


def is_deleted(op: str) -> str:
    """In SQL, of a column `op`."""
    listed = ", ".join(f"'{each}'" for each in RETRACTIONS)
    return f"coalesce({op} IN ({listed}), false)"


_ARROW_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def _order_value(value: Any, order: Column) -> Any:
    if value is None:
        return None
    if order.kind is Kind.DURATION:
        return timedelta(microseconds=value)
    if order.kind in _ARROW_TYPES:
        width = pa.int32() if order.kind is Kind.DATE else pa.int64()
        return pa.array([value], width).cast(_ARROW_TYPES[order.kind])[0].as_py()
    if order.kind in (Kind.TEXT, Kind.JSON):
        return value.decode(errors="replace")
    return value


def _without_nul(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Such an `op` is none that deletes."""
    return pc.if_else(pc.match_substring(texts, "\0"), pa.scalar(None, texts.type), texts)
