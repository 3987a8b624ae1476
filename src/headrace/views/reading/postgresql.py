"""Reading a version in PostgreSQL."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from headrace.redaction import ESCAPE_HINT, redacted, scrubbed
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.kinds import Kind, kind_of
from headrace.views.query.sql import POSTGRESQL
from headrace.views.reading.table import QUERY_TIMEOUT_S, TableReader

CONNECT_TIMEOUT_S = 10

_UNAVAILABLE_STATES = re.compile("08...|40...|53...|55P03|57...|58...")
"""Errors that pass: connections, deadlocks, resources, locks, timeouts and shutdown."""

_UNDEFINED_TABLE = "42P01"


class PostgresReader(TableReader):
    dialect = POSTGRESQL
    _begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

    def __init__(self, address: str, definition: Definition, version: int) -> None:
        super().__init__(definition, version)
        self._address = address
        self._opened: psycopg.Connection | None = None

    @property
    def _connection(self) -> psycopg.Connection:
        """A new one after the last was lost."""
        if self._opened is None or self._opened.closed:
            try:
                connection = psycopg.connect(
                    self._address,
                    autocommit=True,
                    connect_timeout=CONNECT_TIMEOUT_S,
                    application_name=f"headrace view {self._definition.name}",
                    client_encoding="utf8",
                )
            except psycopg.ProgrammingError:
                # The library's message would quote a part of the password.
                raise BadView(
                    f"view {self._definition.name}: the address of PostgreSQL can't be read",
                    hint=f"it looks like postgresql://user@host:5432/database; {ESCAPE_HINT}",
                ) from None
            connection.execute("SET TIME ZONE 'UTC'")
            connection.execute(f"SET statement_timeout = '{QUERY_TIMEOUT_S}s'".encode())
            connection.execute("SET default_transaction_read_only = on")
            self._opened = connection
        return self._opened

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        return self._connection.execute(statement.encode(), values)

    def _end(self) -> None:
        if self._opened is not None and not self._opened.closed:
            with contextlib.suppress(psycopg.Error):
                self._opened.execute("ROLLBACK")

    def _read_types(self) -> dict[str, str]:
        rows = self._execute(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            (self._table,),
        ).fetchall()
        return dict(rows)

    @staticmethod
    def _kind(declared: str) -> Kind:
        return kind_of(declared)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate
            if state == _UNDEFINED_TABLE:
                raise self._gone() from error
            message = (
                f"view {self._definition.name}: PostgreSQL at {redacted(self._address)}: "
                f"{scrubbed(str(error).strip(), self._address)}"
            )
            if state is None or _UNAVAILABLE_STATES.fullmatch(state):
                raise ViewUnavailable(
                    message, hint="is the server running? Try again, or select less"
                ) from error
            raise BadView(message, hint="compare columns with values of their type") from error

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
