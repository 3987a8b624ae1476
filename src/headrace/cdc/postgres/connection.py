"""Connections to the database, and what the errors of the driver mean to a capture.

Every connection, for snapshot and stream alike, prints values in the same formats: `FORMATS`.
"""

from __future__ import annotations

import math
import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.redaction import ESCAPE_HINT, redacted, scrubbed

Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_TIMEOUT_S = 10

FORMATS = {
    "datestyle": "ISO",
    "intervalstyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}

# The server may limit the sessions of a role. A snapshot of a large table takes hours.
_SESSION = {
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # A policy must not hide rows from a snapshot: with `off`, PostgreSQL fails instead.
    "row_security": "off",
    # A watermark has to be in the log, not on the server's synchronous standbys.
    "synchronous_commit": "local",
}

_KEEPALIVES = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

# libpq gives no error code for a connection that was not opened: only the text is left.
_REMEDIES = (
    ("password authentication failed", "check user and password of the address"),
    ("no password supplied", "add the password to the address"),
    ("pg_hba.conf", "allow the user, host and database in pg_hba.conf, and replication too"),
    ("WAL sender", "ALTER ROLE {user} REPLICATION"),
    ("walsender", "ALTER ROLE {user} REPLICATION"),
    ("max_wal_senders", "raise max_wal_senders and restart the server"),
    ("permission denied for database", "GRANT CONNECT ON DATABASE {database} TO {user}"),
)


def open_connection(address: str, **more: str) -> Connection:
    """A connection in autocommit mode. `more` are parameters of libpq."""
    try:
        given = conninfo_to_dict(address)
    except psycopg.ProgrammingError as error:
        raise BadCapture(
            f"address {redacted(address)} is not valid: {scrubbed(str(error).strip(), address)}",
            hint=ESCAPE_HINT,
        ) from None
    settings = [f"-c {name}={text}" for name, text in (FORMATS | _SESSION).items()]
    options = " ".join([str(given.get("options") or ""), *settings]).strip()
    wanted = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "headrace",
        **_KEEPALIVES,
        **{name: text for name, text in given.items() if text is not None},
        **more,
    }
    try:
        return psycopg.connect(
            make_conninfo("", **wanted | {"options": options, "client_encoding": "UTF8"}), autocommit=True
        )
    except psycopg.OperationalError as error:
        raise _not_opened(error, address, given) from None


def _not_opened(
    error: psycopg.OperationalError, address: str, given: dict[str, Any]
) -> BadCapture | SourceUnavailable:
    text = scrubbed(str(error).strip(), address)
    message = f"cannot connect to {redacted(address)}: {text}"
    user = quoted(str(given.get("user") or "USER"))
    database = quoted(str(given.get("dbname") or given.get("user") or "DATABASE"))
    for sign, remedy in _REMEDIES:
        if sign in text:
            return BadCapture(message, hint=remedy.format(user=user, database=database))
    if "does not exist" in text:
        return BadCapture(message, hint="check the user and the database of the address")
    return SourceUnavailable(message, hint="check that the server runs and that its address is right")


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Errors of the driver inside become `SourceUnavailable` or, if a person has to act, `BadCapture`."""
    try:
        yield
    except psycopg.errors.InsufficientPrivilege as error:
        raise BadCapture(
            f"permission is missing in {redacted(address)}: {_first_line(error)}",
            hint="grant it to the user of the address, or use another user",
        ) from None
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        # Tables are listed before they are used, and may be renamed or dropped in between.
        raise SourceUnavailable(
            f"{redacted(address)}: {scrubbed(_first_line(error), address)}",
            hint="it was renamed or dropped meanwhile; the next try finds the tables again",
        ) from None
    except psycopg.OperationalError as error:
        raise SourceUnavailable(
            f"connection to {redacted(address)} failed: {scrubbed(_first_line(error), address)}",
            hint="check that the server runs",
        ) from None
    except psycopg.Error as error:
        raise BadCapture(
            f"{redacted(address)} rejected a statement: {scrubbed(_first_line(error), address)}",
            hint="see the log of the server",
        ) from None


def quoted(name: str) -> str:
    """A name as it stands in SQL, for statements that a message shows."""
    return sql.Identifier(name).as_string(None)


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def is_readable(descriptor: int, wait_s: float) -> bool:
    """Whether there is something to read within this time. `select.select` fails in a process with many open files."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(math.ceil(wait_s * 1_000)))
