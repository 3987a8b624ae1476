"""Views in PostgreSQL: a table for each version, and a view of the database with the view's name.

Which version is served is in the table `headrace_views`, and changes in the transaction that replaces the view. That
view keeps its owner, grants, comment and options; indexes that users created are created on the new version before.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row

from headrace.pipeline.sinks.postgres_client import CONNECT_TIMEOUT_S, RETRYABLE_STATES, place
from headrace.pipeline.sinks.table_store import FENCES, quoted
from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.reader import Reader
from headrace.views.store import Store
from headrace.views.stores.postgresql_objects import Relation, dependents, relation

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

SERVED = "headrace_views"

LOCK_TIMEOUT = "500ms"
"""The switch waits for readers of the view, and new readers wait for the switch: not longer than this at a time."""

SWITCH_S_MAX = 60.0
"""If transactions that have read the view are open for longer, the switch fails and names them."""

SWITCH_PAUSE_S = 0.5

_VERSION_SUFFIX = re.compile(r"__\d+$")
_LOCK_NOT_AVAILABLE = "55P03"


class PostgresViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        if not definition.at.startswith(("postgresql://", "postgres://")):
            raise BadView(
                f"view {definition.name}: a view in PostgreSQL needs an address",
                hint="--at postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
            )
        self._connected: psycopg.Connection | None = None

    # Before the first version

    def check(self) -> None:
        name = self.definition.name
        taken = self._row("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", (quoted(name),))
        if taken is not None and self.served() is None:
            raise BadView(
                f"PostgreSQL at {place(self.definition.at)} has a table or view {name} already",
                hint="give the view another name, or another database with --at",
            )
        allowed = self._row(
            "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE'), current_user"
        )
        assert allowed is not None
        if not allowed[1]:
            raise BadView(
                f"user {allowed[2]} may not create tables in schema {allowed[0]} of {place(self.definition.at)}",
                hint=f"GRANT CREATE ON SCHEMA {allowed[0]} TO {allowed[2]}",
            )

    # Versions

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks import Table

        return Table(self.definition.physical(version), key=self.definition.key, at=self.definition.at)

    def versions(self) -> list[int]:
        rows = self._execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND pg_table_is_visible(oid) AND relname LIKE %s",
            (f"{self.definition.name}\\_\\_%",),
        ).fetchall()
        return sorted(version for (name,) in rows if (version := self.definition.version_of(name)))

    def served(self) -> int | None:
        if relation(self._connection_in_use(), SERVED) is None:
            return None
        row = self._row(f"SELECT version FROM {SERVED} WHERE view = %s", (self.definition.name,))
        return None if row is None else int(row[0])

    def drop(self, version: int) -> None:
        table = self.definition.physical(version)
        with self._transaction():
            self._execute(f"DROP TABLE IF EXISTS {quoted(table)}")
            if relation(self._connection_in_use(), FENCES) is not None:
                self._execute(f"DELETE FROM {FENCES} WHERE target = %s", (table,))

    def drop_view(self) -> None:
        if self.served() is not None:
            with self._transaction():
                self._execute(f"DROP VIEW IF EXISTS {quoted(self.definition.name)}")
                self._execute(f"DELETE FROM {SERVED} WHERE view = %s", (self.definition.name,))
        for version in self.versions():
            self.drop(version)

    # The switch

    def switch(self, version: int) -> None:
        self.switch_together({}, version)

    @property
    def switch_group(self) -> str:
        return f"postgresql {self.definition.at}"

    def switch_together(self, others: Mapping[Store, int], version: int) -> None:
        pairs = {self: version, **{_own(store): number for store, number in others.items()}}
        for store, number in pairs.items():
            store._copy_indexes(number)
        deadline_s = time.monotonic() + SWITCH_S_MAX
        while not self._try_switch(pairs):
            if time.monotonic() > deadline_s:
                raise ViewUnavailable(
                    f"the switch of view {self.definition.name} waits for transactions that have read it: "
                    f"{self._blockers()}",
                    hint="end them, and run the same command again; readers have the old version until then",
                )
            time.sleep(SWITCH_PAUSE_S)

    def _try_switch(self, pairs: Mapping[PostgresViews, int]) -> bool:
        """False if a reader holds a lock on a view."""
        try:
            with self._transaction():
                self._execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                self._execute(
                    f"CREATE TABLE IF NOT EXISTS {SERVED} (view text PRIMARY KEY, version integer NOT NULL)"
                )
                for store, number in pairs.items():
                    self._serve(store.definition, number)
        except ViewUnavailable as error:
            if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
                return False
            raise
        return True

    def _serve(self, definition: Definition, version: int) -> None:
        connection = self._connection_in_use()
        name, table = quoted(definition.name), quoted(definition.physical(version))
        before = relation(connection, definition.name)
        new = relation(connection, definition.physical(version))
        assert new is not None, "the sink has created the table of the version"
        if before is not None and before.columns != new.columns[: len(before.columns)]:
            self._drop_replaced(before)
            self._execute(f"CREATE VIEW {name}{before.options_clause} AS SELECT * FROM {table}")
            for statement in before.restoring(definition.name):
                self._execute(statement)
        else:
            options = before.options_clause if before is not None else ""
            self._execute(f"CREATE OR REPLACE VIEW {name}{options} AS SELECT * FROM {table}")
        if before is not None:
            # A view reads its table with the rights of its owner.
            self._execute(f"GRANT SELECT ON {table} TO {quoted(before.owner)}")
        self._execute(
            f"INSERT INTO {SERVED} (view, version) VALUES (%s, %s) "
            "ON CONFLICT (view) DO UPDATE SET version = excluded.version",
            (definition.name, version),
        )

    def _drop_replaced(self, view: Relation) -> None:
        names = dependents(self._connection_in_use(), view.name)
        if names:
            raise BadView(
                f"view {view.name} has other columns now, and {', '.join(names)} of the database depends on it",
                hint=f"drop {', '.join(names)}, and create it again after the rebuild",
            )
        self._execute(f"DROP VIEW {quoted(view.name)}")

    def _copy_indexes(self, version: int) -> None:
        """Those that users created on the served version. Names of indexes are unique in a schema, so they end with
        the version."""
        served = self.served()
        if served is None or served == version:
            return
        table = quoted(self.definition.physical(version))
        rows = self._execute(
            "SELECT c.relname, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid "
            "WHERE indrelid = to_regclass(%s) AND NOT indisprimary AND indisvalid",
            (quoted(self.definition.physical(served)),),
        ).fetchall()
        for name, statement in rows:
            unique = "UNIQUE " if statement.startswith("CREATE UNIQUE") else ""
            copy = f"{_VERSION_SUFFIX.sub('', name)}__{version}"
            try:
                self._execute(
                    f"CREATE {unique}INDEX IF NOT EXISTS {quoted(copy)} ON {table} "
                    f"USING{statement.partition(' USING')[2]}"
                )
            except BadView as error:
                raise BadView(
                    f"the new version of view {self.definition.name} cannot have the index {name}: {error.message}",
                    hint=f"DROP INDEX {quoted(name)}, or keep the columns that it needs",
                ) from error

    def _blockers(self) -> str:
        rows = self._execute(
            "SELECT DISTINCT a.pid, a.application_name, a.state FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE l.relation = to_regclass(%s) AND l.granted",
            (quoted(self.definition.name),),
        ).fetchall()
        return (
            ", ".join(f"process {pid} ({name or 'unnamed'}, {state})" for pid, name, state in rows)
            or "none now"
        )

    # Rows

    def count(self, version: int) -> int:
        row = self._row(f"SELECT count(*) FROM {self._table(version)}")
        assert row is not None
        return int(row[0])

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        return self._dicts(f"SELECT * FROM {self._table(version)} ORDER BY random() LIMIT %s", (limit,))

    def find(self, version: int, keys: Sequence[Row]) -> list[dict[str, Any] | None]:
        is_key = " AND ".join(f"{quoted(name)} = %s" for name in self.definition.key)
        statement = f"SELECT * FROM {self._table(version)} WHERE {is_key}"
        found = (self._dicts(statement, [key[name] for name in self.definition.key]) for key in keys)
        return [next(iter(rows), None) for rows in found]

    def reader(self, version: int) -> Reader:
        from headrace.views.reading.postgresql import PostgresReader

        return PostgresReader(self.definition.at, self.definition, version)

    def _table(self, version: int) -> str:
        return quoted(self.definition.physical(version))

    # The database

    def _connection_in_use(self) -> psycopg.Connection:
        if self._connected is None or self._connected.closed:
            with self._errors():
                self._connected = psycopg.connect(
                    self.definition.at,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    application_name=f"headrace view {self.definition.name}",
                    client_encoding="utf8",
                )
        return self._connected

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        with self._errors():
            return self._connection_in_use().execute(statement.encode(), values or None)

    def _row(self, statement: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found = self._execute(statement, values).fetchone()
        return None if found is None else tuple(found)

    def _dicts(self, statement: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        with self._errors(), self._connection_in_use().cursor(row_factory=dict_row) as cursor:
            return cursor.execute(statement.encode(), values or None).fetchall()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._errors(), self._connection_in_use().transaction():
            yield

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate
            message = f"PostgreSQL at {place(self.definition.at)}: {str(error).strip()}"
            is_lost = isinstance(error, psycopg.OperationalError) and state is None
            if is_lost or (state is not None and RETRYABLE_STATES.fullmatch(state)):
                raise ViewUnavailable(
                    message, hint="is the server running, and the address right?"
                ) from error
            raise BadView(
                message, hint="check the rights of the user, and the definition of the view"
            ) from error

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()
            self._connected = None


def _own(store: Store) -> PostgresViews:
    assert isinstance(store, PostgresViews), "stores of one group are of one kind"
    return store
