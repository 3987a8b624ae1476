"""A table in PostgreSQL. A deleted row stays in its page until VACUUM; the WAL has a retention of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject
from headrace.redaction import redacted, scrubbed

CONNECT_TIMEOUT_S = 10

# VACUUM keeps what the snapshot of any of them can see.
_OLDER_READERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND age(backend_xmin) >= age(%s::xid)
"""


class PostgresTable:
    def __init__(self, address: str, table: str, column: str) -> None:
        self.name = f"{redacted(address)} {table}.{column}"
        self._address = address
        self._table = table
        self._column = column

    def remaining(self, subject: Subject) -> int:
        from psycopg import sql

        with self._connect() as connection:
            query = sql.SQL("SELECT count(*) FROM {} WHERE {}::text = %s").format(
                self._identifier(), sql.Identifier(self._column)
            )
            (rows,) = connection.execute(query, (subject.column(self._column),)).fetchone()
        return int(rows)

    def erase(self, subject: Subject) -> None:
        from psycopg import sql

        with self._connect() as connection:
            with connection.transaction():
                query = sql.SQL("DELETE FROM {} WHERE {}::text = %s").format(
                    self._identifier(), sql.Identifier(self._column)
                )
                connection.execute(query, (subject.column(self._column),))
                (deleted_at,) = connection.execute("SELECT pg_current_xact_id()::xid::text").fetchone()
            # Rewrites the table and its indexes. Plain VACUUM only marks the space as free: the bytes would stay.
            connection.execute(sql.SQL("VACUUM FULL {}").format(self._identifier()))
            older = connection.execute(_OLDER_READERS, (deleted_at,)).fetchall()
        if older:
            raise ErasureInterrupted(
                f"{self.name}: an open transaction (process {older[0][0]}) still sees the deleted rows, so they stay",
                hint="when it has ended, `headrace erase continue` with the same --place",
            )

    def _identifier(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*self._table.split("."))

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Any]:
        try:
            import psycopg
        except ImportError as error:
            raise BadErasure(
                f"PostgreSQL needs psycopg: {error}", hint="pip install 'headrace[cdc]'"
            ) from error
        try:
            with psycopg.connect(
                self._address, autocommit=True, connect_timeout=CONNECT_TIMEOUT_S
            ) as connection:
                yield connection
        except psycopg.Error as error:
            kind = ErasureInterrupted if isinstance(error, psycopg.OperationalError) else BadErasure
            raise kind(
                f"{self.name}: {scrubbed(str(error), self._address)}",
                hint="is the server running, and may the user delete from and vacuum the table?",
            ) from error
