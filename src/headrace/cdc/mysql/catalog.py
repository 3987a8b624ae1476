"""What the database knows of tables and columns. Reads only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from headrace.cdc.mysql.connection import Connection, quoted
from headrace.cdc.mysql.types import Spec, parse_values

SYSTEM_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")

Path = tuple[str, str]
"""database and table"""


class CatalogTable(Struct, frozen=True, kw_only=True):
    path: Path
    engine: str
    is_transactional: bool
    rows_total: int | None
    changed_s: float
    """when the table was created or altered, in seconds since 1970"""
    key: tuple[str, ...]
    columns: tuple[Spec, ...]

    @property
    def label(self) -> str:
        return ".".join(self.path)

    @property
    def quoted(self) -> str:
        return ".".join(map(quoted, self.path))


_TABLES = """
SELECT t.table_schema, t.table_name, t.engine, e.transactions = 'YES', t.table_rows, t.create_time
  FROM information_schema.tables t
  LEFT JOIN information_schema.engines e ON e.engine = t.engine
 WHERE t.table_type = 'BASE TABLE' AND {condition}
 ORDER BY t.table_schema, t.table_name
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, column_type, is_nullable, character_set_name,
       character_octet_length, numeric_precision, numeric_scale, datetime_precision
  FROM information_schema.columns
 WHERE {condition}
 ORDER BY table_schema, table_name, ordinal_position
"""
_KEYS = """
SELECT table_schema, table_name, column_name
  FROM information_schema.statistics
 WHERE index_name = 'PRIMARY' AND {condition}
 ORDER BY table_schema, table_name, seq_in_index
"""
# MariaDB's JSON is a LONGTEXT with a check.
_JSON_CHECKS = """
SELECT constraint_schema, table_name, check_clause
  FROM information_schema.check_constraints
 WHERE check_clause LIKE 'json_valid(%%' AND {condition}
"""
_JSON_CHECK = re.compile(r"json_valid\(`((?:[^`]|``)+)`\)")


def is_captured(path: Path, database: str, patterns: Iterable[str]) -> bool:
    """Whether a table is in the database of the capture, and its name matches: `table` or `database.table`."""
    if path[0] != database if database else path[0] in SYSTEM_DATABASES:
        return False
    return any(fnmatchcase(path[1], each) or fnmatchcase(".".join(path), each) for each in patterns)


def captured_tables(connection: Connection, database: str, patterns: Sequence[str]) -> list[CatalogTable]:
    """Tables that match a pattern, by name."""
    if database:
        found = _tables(connection, "{schema} = %s", [database])
    else:
        found = _tables(connection, "{schema} NOT IN (%s, %s, %s, %s)", SYSTEM_DATABASES)
    return [table for table in found if is_captured(table.path, database, patterns)]


def table_by_path(connection: Connection, path: Path) -> CatalogTable | None:
    """None if there is no such table any more."""
    return next(iter(_tables(connection, "{schema} = %s AND {table} = %s", path)), None)


def _tables(connection: Connection, where: str, values: Sequence[str]) -> list[CatalogTable]:
    def rows(
        statement: str, schema: str = "table_schema", table: str = "table_name"
    ) -> list[tuple[Any, ...]]:
        return connection.execute(
            statement.format(condition=where.format(schema=schema, table=table)), values
        )

    found = rows(_TABLES, "t.table_schema", "t.table_name")
    json_columns = _json_columns(rows(_JSON_CHECKS, "constraint_schema")) if connection.is_mariadb else set()
    columns: dict[Path, list[Spec]] = {}
    for database, table, *described in rows(_COLUMNS):
        spec = _spec(described, is_json=(database, table, described[0]) in json_columns)
        columns.setdefault((database, table), []).append(spec)
    keys: dict[Path, list[str]] = {}
    for database, table, name in rows(_KEYS):
        keys.setdefault((database, table), []).append(name)
    return [
        CatalogTable(
            path=(database, table),
            engine=engine or "",
            is_transactional=bool(is_transactional),
            rows_total=None if rows_total is None else int(rows_total),
            changed_s=_seconds(changed),
            key=tuple(keys.get((database, table), ())),
            columns=tuple(columns.get((database, table), ())),
        )
        for database, table, engine, is_transactional, rows_total, changed in found
    ]


def _json_columns(checks: Iterable[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
    found = ((database, table, _JSON_CHECK.fullmatch(clause)) for database, table, clause in checks)
    return {(database, table, match[1].replace("``", "`")) for database, table, match in found if match}


def _spec(described: Sequence[Any], *, is_json: bool) -> Spec:
    name, kind, full, nullable, charset, octets, precision, scale, digits = described
    bits = int(precision or 1) if kind == "bit" else 0
    return Spec(
        name=name,
        type=kind.lower(),
        optional=nullable == "YES",
        is_unsigned="unsigned" in full.lower(),
        charset=charset,
        length=bits or int(octets or 0),
        precision=int(precision or 0),
        scale=int((digits if digits is not None else scale) or 0),
        values=parse_values(full) if kind.lower() in ("enum", "set") else (),
        is_json=is_json,
        is_compressed="COMPRESSED" in full,
    )


def _seconds(changed: datetime | None) -> float:
    # The session's time zone is UTC.
    return 0.0 if changed is None else changed.replace(tzinfo=UTC).timestamp()
