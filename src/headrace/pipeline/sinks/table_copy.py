"""Arrow's rows as the text that PostgreSQL's COPY reads: CSV, in which every type of a table can be written."""

from __future__ import annotations

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.pipeline.sinks.table_store import RowRejection, listed

COPY_ROWS = 65_536
"""Rows that are turned into text at a time: some megabytes, whatever the batch."""


def copy_rows(connection: psycopg.Connection, into: str, rows: pa.Table) -> None:
    """COPY into a table, whose name is quoted where it needs to be."""
    statement = f"COPY {into} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)"
    options = csv.WriteOptions(include_header=False, batch_size=COPY_ROWS)
    with connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
        for begin in range(0, len(rows), COPY_ROWS):
            buffer = pa.BufferOutputStream()
            csv.write_csv(_as_text(rows.slice(begin, COPY_ROWS)), buffer, options)
            copy.write(memoryview(buffer.getvalue()))


def with_nul(rows: pa.Table) -> list[RowRejection]:
    """PostgreSQL's text can't have the character NUL, and its COPY does not report the row."""
    rejected: dict[int, str] = {}
    for name in rows.column_names:
        if pa.types.is_string(rows[name].type):
            has_nul = pc.match_substring(rows[name], "\0")
            if pc.any(has_nul).as_py():
                for position in np.flatnonzero(has_nul.fill_null(False).to_numpy()):
                    reason = f"column {name}: PostgreSQL's text can't have the character NUL"
                    rejected.setdefault(int(position), reason)
    return [RowRejection(position=position, reason=reason) for position, reason in sorted(rejected.items())]


def _as_text(rows: pa.Table) -> pa.Table:
    """Columns that Arrow's writer of CSV can write, in the notation that PostgreSQL reads."""
    for index, name in enumerate(rows.column_names):
        column = rows[name]
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            rows = rows.set_column(index, name, _hexadecimal(column))
        elif pa.types.is_timestamp(column.type):
            # Without its zone: Arrow would look up what UTC is for every value.
            rows = rows.set_column(index, name, column.cast(pa.timestamp("us")))
        elif pa.types.is_decimal(column.type):
            rows = rows.set_column(index, name, column.cast(pa.string()))
        elif pa.types.is_duration(column.type):
            microseconds = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
            rows = rows.set_column(
                index, name, pc.binary_join_element_wise(microseconds, "microseconds", " ")
            )
    return rows


_HEXADECIMAL = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)


def _hexadecimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As in `\\x00ff`; all bytes of a column at once."""
    values = column.cast(pa.large_binary()).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[
        values.offset : values.offset + len(values) + 1
    ]
    data = values.buffers()[2]
    used = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
    digits = pa.py_buffer(np.ascontiguousarray(_HEXADECIMAL[used]).tobytes())
    texts = pa.Array.from_buffers(
        pa.large_string(), len(values), [None, pa.py_buffer((offsets - offsets[0]) * 2), digits]
    )
    marked = pc.binary_join_element_wise(
        pa.scalar("\\x", pa.large_string()), texts, pa.scalar("", pa.large_string())
    )
    return pc.if_else(values.is_null(), pa.scalar(None, pa.large_string()), marked)
