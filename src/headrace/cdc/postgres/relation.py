"""A table with the conversions of its values: from the catalog for a snapshot, from a Relation message for the stream.

Both give equal tables and equal rows for the same schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.cdc.change import Table
from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.pgoutput import UNCHANGED, Relation, Value, Values
from headrace.cdc.postgres.types import Convert, TypeInfo, shape


class Described(Struct, frozen=True, kw_only=True):
    table: Table
    source: Mapping[str, Any]
    """the fields of a change's `source` that are those of its table"""
    names: tuple[str, ...]
    conversions: tuple[tuple[str, Convert], ...]
    """by column; the values of all others are texts"""
    key_indexes: tuple[int, ...]

    def row(self, values: Sequence[Value]) -> dict[str, Any]:
        row: dict[str, Any] = dict(zip(self.names, values, strict=True))
        for name, convert in self.conversions:
            text = row[name]
            if text is not None and text is not UNCHANGED:
                row[name] = convert(text)
        return row

    def key_row(self, values: Sequence[Value]) -> dict[str, Any]:
        """The columns of the key only: all that PostgreSQL logs of an old row by default."""
        row: dict[str, Any] = {self.names[at]: values[at] for at in self.key_indexes}
        for name, convert in self.conversions:
            if row.get(name) is not None:
                row[name] = convert(row[name])
        return row

    def filled(self, new: Values, old: Values, is_old_whole: bool) -> Values:
        """The new values, with those of the old row that an update did not change and the server did not repeat."""
        if not any(text is UNCHANGED for text in new):
            return new
        known = range(len(new)) if is_old_whole else self.key_indexes
        return [old[at] if text is UNCHANGED and at in known else text for at, text in enumerate(new)]

    def is_key_changed(self, old: Values, new: Values) -> bool:
        return any(old[at] != new[at] for at in self.key_indexes)


def describe_catalog(database: str, found: CatalogTable, types: Mapping[int, TypeInfo]) -> Described:
    shapes = [shape(column.type_oid, column.type_modifier, types) for column in found.columns]
    columns = tuple(
        one.column(column.name, optional=not column.is_required)
        for one, column in zip(shapes, found.columns, strict=True)
    )
    return _described(
        database,
        Table(path=found.path, columns=columns, key=found.key),
        [one.convert for one in shapes],
    )


def describe_relation(
    database: str,
    relation: Relation,
    types: Mapping[int, TypeInfo],
    *,
    known: CatalogTable | None,
    previous: Described | None,
) -> Described:
    """`known` is the table as it is now: it may have changed since, or be dropped. The message has neither the order of
    the key nor which columns may be null."""
    required = {
        (column.name, column.type_oid) for column in (known.columns if known else ()) if column.is_required
    }
    shapes = [shape(column.type_oid, column.type_modifier, types) for column in relation.columns]
    columns = tuple(
        one.column(column.name, optional=(column.name, column.type_oid) not in required)
        for one, column in zip(shapes, relation.columns, strict=True)
    )
    key = _key(relation, known.key if known else (), previous.table.key if previous else ())
    table = Table(path=(relation.schema, relation.name), columns=columns, key=key)
    return _described(database, table, [one.convert for one in shapes])


def _key(relation: Relation, now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """With the replica identity FULL every column is marked, so that only the catalog knows the key."""
    names = tuple(column.name for column in relation.columns)
    marked = tuple(column.name for column in relation.columns if column.is_key)
    if relation.replica_identity != "f" and marked:
        return next((key for key in (now, before) if set(key) == set(marked)), marked)
    return next((key for key in (now, before) if key and set(key) <= set(names)), names)


def _described(database: str, table: Table, converts: Sequence[Convert | None]) -> Described:
    names = [column.name for column in table.columns]
    return Described(
        table=table,
        source={"db": database, "schema": table.path[0], "table": table.path[1]},
        names=tuple(names),
        conversions=tuple(
            (name, convert) for name, convert in zip(names, converts, strict=True) if convert is not None
        ),
        key_indexes=tuple(names.index(name) for name in table.key),
    )
