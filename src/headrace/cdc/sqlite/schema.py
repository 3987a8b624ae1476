"""The tables of a SQLite file, as capture sees them: columns, keys and unique indexes."""

from __future__ import annotations

import fnmatch
import re
import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from headrace.cdc.change import Column, ColumnType, Table
from headrace.cdc.errors import BadCapture

OWN_PREFIX = "headrace_"
"""Of the tables and triggers that captures create."""

COLUMNS_MAX = 900
"""A change has two values for each column, and a table of SQLite has 2,000 columns at most."""

_PARTIAL = re.compile(r"\sWHERE\s(.*)$", re.IGNORECASE | re.DOTALL)


class UniqueIndex(Struct, frozen=True, kw_only=True):
    """Columns with their collations, and the condition of a partial index."""

    columns: tuple[tuple[str, str], ...]
    where: str | None = None


class CapturedTable(Struct, frozen=True, kw_only=True):
    table: Table
    unique: tuple[UniqueIndex, ...]
    """includes the primary key"""

    @property
    def name(self) -> str:
        return self.table.path[0]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def captured_tables(connection: sqlite3.Connection, patterns: Sequence[str]) -> list[CapturedTable]:
    """The tables whose names match. Virtual tables, and the tables that store their content, are left out."""
    names = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' ORDER BY name"
        )
        if not name.startswith(("sqlite_", OWN_PREFIX))
    ]
    matching = [name for name in names if any(fnmatch.fnmatchcase(name, each) for each in patterns)]
    return [_captured(connection, name) for name in matching]


def _captured(connection: sqlite3.Connection, name: str) -> CapturedTable:
    found = connection.execute(
        'SELECT name, type, "notnull", pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid', (name,)
    ).fetchall()
    key = tuple(column for column, _, _, place in sorted(found, key=lambda each: each[3]) if place)
    if not key:
        raise BadCapture(
            f"table {name} has no primary key, so its changes have no key",
            hint="add a primary key, or choose other tables with --tables",
        )
    if len(found) > COLUMNS_MAX:
        raise BadCapture(
            f"table {name} has {len(found)} columns; at most {COLUMNS_MAX} can be captured",
            hint="choose other tables with --tables",
        )
    columns = tuple(
        Column(name=column, type=_type(declared), optional=not (is_not_null or place))
        for column, declared, is_not_null, place in found
    )
    table = Table(path=(name,), columns=columns, key=key)
    return CapturedTable(table=table, unique=tuple(_unique(connection, name, key)))


def _unique(connection: sqlite3.Connection, table: str, key: Sequence[str]) -> list[UniqueIndex]:
    found = connection.execute(
        "SELECT name, origin, (SELECT sql FROM sqlite_master WHERE type = 'index' AND name = list.name) "
        'FROM pragma_index_list(?) AS list WHERE "unique"',
        (table,),
    ).fetchall()
    indexes = []
    if all(origin != "pk" for _, origin, _ in found):  # an INTEGER PRIMARY KEY is the row id
        indexes.append(UniqueIndex(columns=tuple((name, "BINARY") for name in key)))
    for index, _, sql in found:
        columns = connection.execute(
            "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key", (index,)
        ).fetchall()
        if any(name is None for name, _ in columns):
            raise BadCapture(
                f"table {table} has the unique index {index} on an expression, so a row that INSERT OR REPLACE "
                "removes cannot be found",
                hint="use a generated column in its place, or choose other tables with --tables",
            )
        partial = _PARTIAL.search(sql or "")
        indexes.append(UniqueIndex(columns=tuple(columns), where=partial and partial.group(1)))
    return indexes


def _type(declared: str) -> ColumnType:
    """By SQLite's rules for the affinity of a column. A value may still have another type."""
    text = declared.upper()
    if "INT" in text:
        return "int64"
    if any(each in text for each in ("CHAR", "CLOB", "TEXT")):
        return "string"
    if "BLOB" in text or not text:
        return "bytes" if text else "any"
    if any(each in text for each in ("REAL", "FLOA", "DOUB")):
        return "double"
    return "any"
