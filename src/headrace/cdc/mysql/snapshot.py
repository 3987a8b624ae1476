"""The statements that read the rows of a snapshot, chunk by chunk of the primary key.

A key is kept as the texts that `_key_text` prints. A chunk is read in a transaction whose place in the log is known:
the rows are those of that place, no more and no less. MariaDB tells the place of a consistent snapshot. MySQL does not,
so the tables are locked for writing while the snapshot is begun, some milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.cdc.mysql.catalog import CatalogTable
from headrace.cdc.mysql.connection import Connection, quoted
from headrace.cdc.mysql.place import LogEnd, log_end
from headrace.cdc.mysql.types import BYTES, INTEGERS, Spec, from_text, select_expression
from headrace.cdc.snapshot_queue import Key, Path

CHUNK_ROWS = 20_000
"""of the initial snapshot. Rows are not collected: a chunk costs one statement, no memory"""

WINDOW_ROWS = 2_000
"""of a snapshot beside the stream. They are in memory until the stream is where they were read"""

WINDOW_BYTES_MAX = 16_000_000
"""of texts that are read for such a chunk; at least one row is read"""

_NUMBERS = INTEGERS | {"decimal", "float", "double", "year", "enum", "set", "bit"}


def begin_read(reader: Connection, control: Connection, tables: Sequence[Path]) -> LogEnd:
    """Begin a transaction on `reader`. It sees the rows of the tables as they were at the place that is returned."""
    begin = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
    if reader.is_mariadb:
        reader.execute(begin)
        return log_end(reader)
    # LOCK TABLES waits until the transactions that have changed the tables are visible.
    listed = ", ".join(f"{quoted(database)}.{quoted(name)} READ" for database, name in tables)
    control.execute(f"LOCK TABLES {listed}")
    try:
        reader.execute(begin)
        return log_end(control)
    finally:
        control.execute("UNLOCK TABLES")


class ChunkRows:
    """Reads the rows of a table in the order of its key."""

    def __init__(self, table: CatalogTable) -> None:
        specs = {spec.name: spec for spec in table.columns}
        self._table = table
        self._names = [spec.name for spec in table.columns]
        self._converts = [from_text(spec) for spec in table.columns]
        self._key = [specs[name] for name in table.key]

    def statement(self, reader: Connection, after: Key | None, rows_max: int) -> str:
        columns = [select_expression(spec, quoted(spec.name)) for spec in self._table.columns]
        keys = [_key_text(spec) for spec in self._key]
        order = ", ".join(_key_order(spec) for spec in self._key)
        condition = "" if after is None else f"WHERE {self._after(reader, after)} "
        return (
            f"SELECT {', '.join([*columns, *keys])} FROM {self._table.quoted} FORCE INDEX (PRIMARY)"
            f" {condition}ORDER BY {order} LIMIT {rows_max}"
        )

    def _after(self, reader: Connection, after: Key) -> str:
        """(a, b) > (x, y), in the form for which the server uses the index."""
        terms = [
            (_key_order(spec), _key_literal(spec, text, reader))
            for spec, text in zip(self._key, after, strict=True)
        ]
        choices = []
        for number, (column, literal) in enumerate(terms):
            same = [f"{name} = {text}" for name, text in terms[:number]]
            choices.append("(" + " AND ".join([*same, f"{column} > {literal}"]) + ")")
        first, bound = terms[0]
        return f"{first} >= {bound} AND ({' OR '.join(choices)})"

    def key(self, values: Sequence[bytes | None]) -> Key:
        return [value.decode() for value in values[len(self._names) :] if value is not None]

    def row(self, values: Sequence[bytes | None]) -> dict[str, Any]:
        return {
            name: None if value is None else convert(value)
            for name, convert, value in zip(self._names, self._converts, values, strict=False)
        }


def read_window(
    reader: Connection, chunk: ChunkRows, after: Key | None, *, bytes_max: int = WINDOW_BYTES_MAX
) -> tuple[list[tuple[Key, dict[str, Any]]], bool]:
    """The next rows with their keys, and whether they are the last ones."""
    found = []
    size = 0
    rows = reader.stream(chunk.statement(reader, after, WINDOW_ROWS))
    for values in rows:
        found.append((chunk.key(values), chunk.row(values)))
        size += sum(len(value) for value in values if value is not None)
        if size > bytes_max:
            rows.close()
            return found, False
    return found, len(found) < WINDOW_ROWS


def _key_order(spec: Spec) -> str:
    """What rows are ordered and compared by. Enums and sets are ordered by number, and compared as texts."""
    name = quoted(spec.name)
    return f"({name} + 0)" if spec.type in ("enum", "set", "bit") else name


def _key_text(spec: Spec) -> str:
    if spec.type in BYTES:
        return f"HEX({quoted(spec.name)})"
    return f"{_key_order(spec)} + 0e0" if spec.type == "float" else _key_order(spec)


def _key_literal(spec: Spec, text: str | None, reader: Connection) -> str:
    assert text is not None, spec  # of a primary key
    if spec.type in BYTES:
        return f"X'{bytes.fromhex(text).hex()}'"
    if spec.type in _NUMBERS:
        # A number, whatever a position may hold.
        assert set(text) <= set("+-.0123456789eE"), text
        return text
    return reader.literal(text)
