"""PostgreSQL for the `Table` sink, on the driver and in tasks: connections, addresses, errors, rejected rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import psycopg

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.table_store import RowRejection
from headrace.redaction import ESCAPE_HINT

CONNECT_TIMEOUT_S = 10
"""A server that does not respond by then is unavailable; the job restarts."""

REJECTIONS_MAX = 1_000
"""Finding one rejected row takes about twenty attempts. If more rows are rejected, the table does not fit the rows."""

REJECTED_STATES = re.compile("22...|23...|44000|54000|P0001")
"""Errors that one row's values cause: data, constraints, a view's check, a long index entry, a trigger."""

RETRYABLE_STATES = re.compile("08...|40...|53...|55P03|57...|58...")
"""Errors that pass: connections, deadlocks, resources, locks, shutdown, the server's disk."""


def connect(address: str, job: str) -> psycopg.Connection:
    connection = psycopg.connect(
        address,
        autocommit=True,
        connect_timeout=CONNECT_TIMEOUT_S,
        application_name=f"headrace {job}",
        client_encoding="utf8",
    )
    connection.execute("SET TIME ZONE 'UTC'")  # of the timestamps in text
    return connection


@contextlib.contextmanager
def postgres_errors(address: str) -> Iterator[None]:
    """Turns the library's errors into those of sinks."""
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate
        message = f"PostgreSQL at {place(address)}: {str(error).strip()}"
        is_lost = isinstance(error, psycopg.OperationalError) and state is None
        if is_lost or (state is not None and RETRYABLE_STATES.fullmatch(state)):
            raise SinkUnavailable(
                message, hint="is the server running? The job writes the same batch again"
            ) from error
        raise BadSink(
            message, hint="the whole batch was rejected, and nothing of it is in the table"
        ) from error


def rejected_by_halves(
    connection: psycopg.Connection, table: str, count: int, write: Callable[[int, int], None]
) -> Iterator[RowRejection]:
    """Write the rows from 0 to `count` together; if the server rejects them, write each half separately.

    `write` writes the rows from its first argument to before its second.
    """
    pending, rejections = [(0, count)] if count else [], 0
    while pending:
        begin, end = pending.pop()
        try:
            with connection.transaction():
                write(begin, end)
        except psycopg.Error as error:
            if not is_rejection(error):
                raise
            if end - begin > 1:
                middle = (begin + end) // 2
                pending += [(middle, end), (begin, middle)]
                continue
            rejections += 1
            if rejections > REJECTIONS_MAX:
                raise BadSink(
                    f"table {table} rejects more than {REJECTIONS_MAX} rows of a batch, the last one "
                    f"because of: {reason_of(error)}",
                    hint="the table does not fit the rows: change one of them",
                ) from error
            yield RowRejection(position=begin, reason=reason_of(error))


def is_rejection(error: psycopg.Error) -> bool:
    return error.sqlstate is not None and REJECTED_STATES.fullmatch(error.sqlstate) is not None


def reason_of(error: psycopg.Error) -> str:
    """The server's message, without the line of our COPY."""
    parts = (error.diag.message_primary, error.diag.message_detail)
    return ": ".join(part for part in parts if part) or str(error).strip()


def place(address: str) -> str:
    """Host and database, without user and password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise _bad_address() from None
    if "@" in f"{parts.get('host')}{parts.get('port')}{parts.get('dbname')}":
        raise _bad_address()  # that is the rest of a password
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{parts.get('host') or 'localhost'}{port}/{parts.get('dbname') or ''}"


def _bad_address() -> BadSink:
    # The library's message would quote a part of the password.
    return BadSink(
        "the address of PostgreSQL can't be read",
        hint=f"it looks like postgresql://user@host:5432/database; {ESCAPE_HINT}",
    )
