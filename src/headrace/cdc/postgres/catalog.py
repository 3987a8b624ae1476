"""What the database knows of tables, columns and types. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from psycopg import sql

from headrace.cdc.postgres.connection import Connection, quoted
from headrace.cdc.postgres.types import TypeInfo


class CatalogColumn(Struct, frozen=True, kw_only=True):
    name: str
    type_oid: int
    type_modifier: int
    is_required: bool


class CatalogTable(Struct, frozen=True, kw_only=True):
    oid: int
    schema: str
    name: str
    is_partitioned: bool
    replica_identity: str
    has_key_identity: bool
    """the replica identity is the primary key, or an index on the same columns"""
    is_readable: bool
    is_schema_usable: bool
    is_owned: bool
    rows_total: int | None
    key: tuple[str, ...]
    columns: tuple[CatalogColumn, ...]
    """without generated columns, which pgoutput does not send"""

    @property
    def path(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def label(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def reference(self) -> sql.Composable:
        """The table in a statement. ONLY: a table that inherits from it is a table of its own."""
        name = sql.Identifier(self.schema, self.name)
        return name if self.is_partitioned else sql.SQL("ONLY {}").format(name)


_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relkind = 'p', c.relreplident,
       has_table_privilege(c.oid, 'SELECT'), has_schema_privilege(n.oid, 'USAGE'),
       pg_has_role(c.relowner, 'USAGE'), c.reltuples,
       COALESCE((i.indkey::int2[])[0:i.indnkeyatts - 1], '{}'),
       COALESCE((r.indkey::int2[])[0:r.indnkeyatts - 1], '{}')
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
  LEFT JOIN pg_index r ON r.indrelid = c.oid AND r.indisreplident
"""
_CAPTURABLE = """
 WHERE c.relkind IN ('r', 'p') AND c.relpersistence = 'p' AND NOT c.relispartition
   AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
 ORDER BY n.nspname, c.relname
"""
_COLUMNS = """
SELECT a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod, a.attnotnull
  FROM pg_attribute a
 WHERE a.attrelid = ANY(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
 ORDER BY a.attrelid, a.attnum
"""
_TYPES = """
SELECT t.oid, t.typname, t.typtype, COALESCE(e.oid, 0), t.typbasetype, t.typtypmod,
       COALESCE(e.typdelim, t.typdelim)
  FROM pg_type t
  LEFT JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
"""


def is_captured(schema: str, name: str, patterns: Iterable[str]) -> bool:
    """Whether schema.name matches one of the patterns."""
    return any(fnmatchcase(f"{schema}.{name}", pattern) for pattern in patterns)


def captured_tables(connection: Connection, patterns: Sequence[str]) -> list[CatalogTable]:
    """Tables that match a pattern, by name. Partitions belong to their partitioned table."""
    return [
        table for table in _tables(connection, _CAPTURABLE) if is_captured(table.schema, table.name, patterns)
    ]


def table_by_oid(connection: Connection, oid: int) -> CatalogTable | None:
    """None if the table has been dropped."""
    return next(iter(_tables(connection, f" WHERE c.oid = {int(oid)}")), None)


def table_by_path(connection: Connection, path: tuple[str, str]) -> CatalogTable | None:
    row = connection.execute(
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = %s AND c.relname = %s",
        path,
    ).fetchone()
    return None if row is None else table_by_oid(connection, row[0])


def _tables(connection: Connection, condition: str) -> list[CatalogTable]:
    rows = connection.execute(_TABLES + condition).fetchall()
    columns: dict[int, dict[int, CatalogColumn]] = {row[0]: {} for row in rows}
    for oid, number, name, type_oid, modifier, is_required in connection.execute(_COLUMNS, [list(columns)]):
        columns[oid][number] = CatalogColumn(
            name=name, type_oid=type_oid, type_modifier=modifier, is_required=is_required
        )
    return [
        CatalogTable(
            oid=oid,
            schema=schema,
            name=name,
            is_partitioned=is_partitioned,
            replica_identity=identity,
            has_key_identity=identity == "d" or (identity == "i" and set(key) == set(identity_key)),
            is_readable=grants[0],
            is_schema_usable=grants[1],
            is_owned=grants[2],
            # -1: the table was never analyzed.
            rows_total=int(estimate) if estimate >= 0 else None,
            key=tuple(columns[oid][number].name for number in key if number in columns[oid]),
            columns=tuple(columns[oid].values()),
        )
        for (oid, schema, name, is_partitioned, identity, *grants, estimate, key, identity_key) in rows
    ]


def all_types(connection: Connection) -> dict[int, TypeInfo]:
    """By oid. Some hundred in a new database: one query is cheaper than one for each column."""
    return {
        oid: TypeInfo(
            oid=oid,
            name=name,
            kind=kind,
            item_oid=item_oid,
            base_oid=base_oid,
            base_modifier=base_modifier,
            delimiter=delimiter,
        )
        for oid, name, kind, item_oid, base_oid, base_modifier, delimiter in connection.execute(_TYPES)
    }
