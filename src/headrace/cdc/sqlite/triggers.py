"""The SQL of a capture: the table of changes, and the triggers that fill it in the writer's own transaction.

`INSERT OR REPLACE` and `UPDATE OR REPLACE` remove the rows that conflict, without a delete trigger. So a trigger before
the statement stores the rows that may conflict, and one after it records those that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cdc.sqlite.schema import OWN_PREFIX, CapturedTable, UniqueIndex, quoted

_NOW_MS = "CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)"


class Names:
    """The tables and triggers of one capture."""

    def __init__(self, capture: str) -> None:
        self._prefix = f"{OWN_PREFIX}{capture}_"
        self.changes = f"{self._prefix}changes"
        self.versions = f"{self._prefix}tables"
        self.replaced = f"{self._prefix}replaced"

    @property
    def tables(self) -> tuple[str, ...]:
        return self.changes, self.versions, self.replaced

    def trigger(self, version: int, event: str) -> str:
        return f"{self._prefix}{version}_{event}"

    def is_trigger(self, name: str) -> bool:
        return name.startswith(self._prefix)


def create_tables(names: Names) -> list[str]:
    # Ids are never used again, although rows are deleted: they are positions.
    tables = {
        names.changes: "id INTEGER PRIMARY KEY AUTOINCREMENT, version INTEGER, op TEXT, at_ms INTEGER",
        names.versions: "version INTEGER PRIMARY KEY AUTOINCREMENT, captured TEXT, is_current INTEGER",
        names.replaced: "version INTEGER",
    }
    return [f"CREATE TABLE IF NOT EXISTS {quoted(name)} ({columns})" for name, columns in tables.items()]


def widen_tables(names: Names, existing: Iterable[str], columns: int) -> list[str]:
    """Add the columns that the widest table needs: old and new values. Without a type, values are stored unchanged."""
    there = set(existing)
    wanted = [value for number in range(columns) for value in (f"o{number}", f"n{number}")]
    return [
        f"ALTER TABLE {quoted(table)} ADD COLUMN {each}"
        for each in wanted
        if each not in there
        for table in (names.changes, names.replaced)
    ]


def create_triggers(names: Names, version: int, captured: CapturedTable) -> list[str]:
    return list(_Triggers(names, version, captured).all())


class _Triggers:
    def __init__(self, names: Names, version: int, captured: CapturedTable) -> None:
        self._names = names
        self._version = version
        self._captured = captured
        self._changes, self._replaced = quoted(names.changes), quoted(names.replaced)
        columns = [column.name for column in captured.table.columns]
        self._columns = [quoted(name) for name in columns]
        self._key = [quoted(name) for name in captured.table.key]
        self._old = [f"o{number}" for number in range(len(columns))]
        self._new = [f"n{number}" for number in range(len(columns))]
        self._old_key = [f"o{columns.index(name)}" for name in captured.table.key]

    def all(self) -> Iterable[str]:
        yield self._trigger("before_insert", "BEFORE INSERT", self._forget(), self._note("1"))
        yield self._trigger(
            "insert", "AFTER INSERT", self._record_removed(), self._record_insert(), self._forget()
        )
        unique = {quoted(name) for index in self._captured.unique for name, _ in index.columns}
        other = f"NOT ({_same(self._key, self._of('OLD', self._key))})"
        yield self._trigger(
            "before_update",
            f"BEFORE UPDATE OF {', '.join(sorted(unique))}",
            self._forget(),
            self._note(other),
        )
        yield self._trigger(
            "update",
            "AFTER UPDATE",
            self._record_removed(),
            self._record("u", (*self._old, *self._new), self._of("OLD"), self._of("NEW")),
            self._forget(),
        )
        # With recursive_triggers, this one fires for replaced rows, too: they must not be recorded twice.
        yield self._trigger(
            "delete",
            "AFTER DELETE",
            f"DELETE FROM {self._replaced} WHERE version = {self._version} AND "
            + _same(self._old_key, self._of("OLD", self._key)),
            self._record("d", self._old, self._of("OLD")),
        )

    def _trigger(self, name: str, event: str, *statements: str) -> str:
        body = "; ".join(statements)
        trigger = quoted(self._names.trigger(self._version, name))
        return f"CREATE TRIGGER {trigger} {event} ON {quoted(self._captured.name)} BEGIN {body}; END"

    def _of(self, row: str, columns: Sequence[str] | None = None) -> list[str]:
        return [f"{row}.{name}" for name in (self._columns if columns is None else columns)]

    def _forget(self) -> str:
        return f"DELETE FROM {self._replaced} WHERE version = {self._version}"

    def _note(self, condition: str) -> str:
        """Store the rows that may conflict with the new one."""
        conflicts = " OR ".join(f"({_conflict(index)})" for index in self._captured.unique)
        return (
            f"INSERT INTO {self._replaced} (version, {', '.join(self._old)}) "
            f"SELECT {self._version}, {', '.join(self._columns)} FROM {quoted(self._captured.name)} "
            f"WHERE ({conflicts}) AND {condition}"
        )

    def _record_removed(self) -> str:
        """A delete for each stored row that is gone. The row with the key of the new one is an update of it."""
        gone = (
            f"NOT EXISTS (SELECT 1 FROM {quoted(self._captured.name)} AS t "
            f"WHERE {_same([f't.{name}' for name in self._key], [f'r.{name}' for name in self._old_key])})"
        )
        return (
            f"INSERT INTO {self._changes} (version, op, at_ms, {', '.join(self._old)}) "
            f"SELECT {self._version}, 'd', {_NOW_MS}, {', '.join(self._old)} FROM {self._replaced} AS r "
            f"WHERE r.version = {self._version} AND {gone}"
        )

    def _record_insert(self) -> str:
        joined = f"r.version = {self._version} AND " + _same(
            [f"r.{name}" for name in self._old_key], self._of("NEW", self._key)
        )
        return (
            f"INSERT INTO {self._changes} (version, op, at_ms, {', '.join((*self._old, *self._new))}) "
            f"SELECT {self._version}, CASE WHEN r.version IS NULL THEN 'c' ELSE 'u' END, {_NOW_MS}, "
            f"{', '.join(f'r.{name}' for name in self._old)}, {', '.join(self._of('NEW'))} "
            f"FROM (SELECT 1) LEFT JOIN {self._replaced} AS r ON {joined}"
        )

    def _record(self, op: str, columns: Sequence[str], *values: Sequence[str]) -> str:
        listed = ", ".join(each for group in values for each in group)
        return (
            f"INSERT INTO {self._changes} (version, op, at_ms, {', '.join(columns)}) "
            f"VALUES ({self._version}, '{op}', {_NOW_MS}, {listed})"
        )


def _same(left: Sequence[str], right: Sequence[str]) -> str:
    """Equal to the byte. The comparison by the collation of the column, which may be another one, uses the index."""
    return " AND ".join(f"{a} IS {b} AND {a} IS {b} COLLATE BINARY" for a, b in zip(left, right, strict=True))


def _conflict(index: UniqueIndex) -> str:
    parts = [f"{quoted(name)} = NEW.{quoted(name)} COLLATE {quoted(coll)}" for name, coll in index.columns]
    return " AND ".join([*parts, f"({index.where})"] if index.where else parts)
