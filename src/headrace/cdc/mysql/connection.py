"""Connections to the database, and what the errors of the driver mean to a capture."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pymysql
from msgspec import Struct

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.redaction import ESCAPE_HINT, redacted, scrubbed

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 600
"""A statement that prints nothing for so long has lost its connection. Reading a chunk takes milliseconds."""

DEFAULT_PORT = 3306
SERVER_ID_MAX = 2**32 - 1
TLS_OPTIONS = ("ca", "cert", "key")

# The server may limit its sessions. Values are printed in UTF-8 and UTC; the capture's own statements are parsed as
# the documentation of the server has them.
_SESSION = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', net_write_timeout = 3600, net_read_timeout = 3600,"
    " wait_timeout = 86400, lock_wait_timeout = 10"
)

# Codes of errors after which a retry may succeed.
_ALTERED = (1054, 1146)
"""no such column, no such table: it was renamed or dropped after it was described"""
_TEMPORARY = frozenset(
    {
        0,  # the connection was closed
        1040,  # too many connections
        1053,  # the server shuts down
        1158, 1159, 1160, 1161,  # network
        1205, 1213,  # a lock was not granted
        1317, 1927,  # killed
        1412,  # the table was altered while it was read
        2002, 2003, 2006, 2013, 2055,  # no connection
        3169,  # the session was killed
        4031,  # idle for too long
    }
)  # fmt: skip
_DENIED = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})


class Login(Struct, frozen=True, kw_only=True):
    """The parts of an address."""

    host: str
    port: int
    user: str
    password: str
    database: str
    """empty for all databases of the server"""
    server_id: int | None = None
    """of the capture, as a replica; None for one that its name decides"""
    tls: Mapping[str, str] | None = None


def parse_address(address: str) -> Login:
    """`mysql://USER:PASSWORD@HOST:PORT/DATABASE?server_id=N&ssl_ca=FILE`"""
    try:
        parts = urlsplit(address)
        port = parts.port or DEFAULT_PORT
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise BadCapture(
            f"address {redacted(address)} is not valid: {scrubbed(str(error), address)}", hint=ESCAPE_HINT
        ) from None
    database = unquote(parts.path.removeprefix("/"))
    tls = {name: options.pop(f"ssl_{name}") for name in TLS_OPTIONS if f"ssl_{name}" in options}
    is_tls = options.pop("ssl", "false") == "true" or bool(tls)
    server_id = options.pop("server_id", None)
    if options:
        raise BadCapture(
            f"address {redacted(address)} has the unknown option {next(iter(options))}",
            hint="options are server_id, ssl=true, ssl_ca, ssl_cert and ssl_key",
        )
    if server_id is not None and not (server_id.isascii() and server_id.isdigit()):
        server_id = "0"
    if server_id is not None and not 0 < int(server_id) <= SERVER_ID_MAX:
        raise BadCapture(
            f"server_id of address {redacted(address)} is not valid",
            hint=f"a number from 1 to {SERVER_ID_MAX} that no other server of the replication has",
        )
    return Login(
        host=parts.hostname or "127.0.0.1",
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        server_id=None if server_id is None else int(server_id),
        tls=tls if is_tls else None,
    )


class Connection:
    """A connection in autocommit mode. Rows are tuples of Python values, or with `is_raw` of bytes."""

    def __init__(self, address: str, *, is_raw: bool = False, read_timeout_s: float = READ_TIMEOUT_S) -> None:
        login = parse_address(address)
        options: dict[str, Any] = {"conv": {}, "use_unicode": False} if is_raw else {}
        if login.tls is not None:
            options |= {f"ssl_{name}": file for name, file in login.tls.items()}
            if not login.tls:
                options["ssl"] = _unverified()
        try:
            self.driver: Any = pymysql.connect(
                host=login.host,
                port=login.port,
                user=login.user,
                password=login.password,
                database=login.database or None,
                charset="utf8mb4",
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=read_timeout_s,
                write_timeout=CONNECT_TIMEOUT_S,
                program_name="headrace",
                **options,
            )
        except (pymysql.Error, RuntimeError, OSError) as error:
            raise _not_opened(error, address, login) from None
        self.version: str = self.driver.get_server_info()
        self.is_mariadb = "mariadb" in self.version.lower()
        try:
            self.execute(_SESSION)
            self.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self.execute(
                f"SET SESSION {'max_statement_time' if self.is_mariadb else 'max_execution_time'} = 0"
            )
        except BaseException:
            self.close()
            raise

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self.driver.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())

    def first(self, statement: str, values: Sequence[object] = ()) -> tuple[Any, ...] | None:
        return next(iter(self.execute(statement, values)), None)

    def value(self, statement: str, values: Sequence[object] = ()) -> Any:
        """The first value of the first row."""
        row = self.first(statement, values)
        assert row is not None, statement
        return row[0]

    def stream(self, statement: str) -> Generator[tuple[bytes | None, ...], None, None]:
        """Rows as they arrive. A caller that stops early finds the connection closed: the rest is not waited for."""
        is_complete = False
        cursor = self.driver.cursor(pymysql.cursors.SSCursor)
        try:
            cursor.execute(statement)
            while (row := cursor.fetchone()) is not None:
                yield row
            is_complete = True
        finally:
            if not is_complete:
                self.close()
                if cursor._result is not None:
                    cursor._result.unbuffered_active = False  # the driver would read the rest
            cursor.close()

    @property
    def is_open(self) -> bool:
        return bool(self.driver.open)

    def literal(self, text: str) -> str:
        return str(self.driver.escape(text))

    def close(self) -> None:
        # Without the protocol's farewell: the server may be gone, or in the middle of a result.
        self.driver._force_close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _unverified() -> ssl.SSLContext:
    """TLS without a certificate to verify the server by."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def code_of(error: BaseException) -> int:
    """The number of an error of the server or of the driver; 0 if it has none."""
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def text_of(error: BaseException) -> str:
    text = error.args[1] if len(error.args) > 1 and isinstance(error.args[1], str) else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def _not_opened(error: Exception, address: str, login: Login) -> BadCapture | SourceUnavailable:
    message = f"cannot connect to {redacted(address)}: {scrubbed(text_of(error), address)}"
    code = code_of(error)
    if isinstance(error, RuntimeError):  # caching_sha2_password without TLS
        return BadCapture(message, hint="pip install cryptography, or use TLS: ?ssl=true")
    if code == 1044:
        hint = f"GRANT SELECT ON {quoted(login.database)}.* TO {account(login.user)}"
        return BadCapture(message, hint=hint)
    if code in (1045, 1698):
        return BadCapture(message, hint="check user and password of the address")
    if code == 1049:
        return BadCapture(message, hint="check the database of the address")
    if code == 1130:
        return BadCapture(message, hint="allow the user to connect from this host")
    return SourceUnavailable(message, hint="check that the server runs and that its address is right")


@contextmanager
def translated(address: str) -> Iterator[None]:
    """Errors of the driver inside become `SourceUnavailable` or, if a person has to act, `BadCapture`."""
    try:
        yield
    except (pymysql.Error, OSError) as error:
        raise meaning(error, address) from None


def meaning(error: Exception, address: str) -> BadCapture | SourceUnavailable:
    code, text = code_of(error), scrubbed(text_of(error), address)
    if code in _DENIED:
        return BadCapture(
            f"permission is missing in {redacted(address)}: {text}",
            hint="grant it to the user of the address, or use another user",
        )
    is_lost = isinstance(error, OSError | pymysql.err.InterfaceError | pymysql.err.InternalError)
    if is_lost or code in _TEMPORARY:
        return SourceUnavailable(
            f"connection to {redacted(address)} failed: {text}", hint="check that the server runs"
        )
    if code in _ALTERED:
        return SourceUnavailable(
            f"a table of {redacted(address)} was altered while it was read: {text}",
            hint="the next try reads its columns again",
        )
    return BadCapture(
        f"{redacted(address)} rejected a statement: {text} (error {code})", hint="see the log of the server"
    )


def quoted(name: str) -> str:
    """A name as it stands in SQL."""
    return "`" + name.replace("`", "``") + "`"


def account(user: str, host: str = "%") -> str:
    """A user as it stands in a GRANT."""
    return "@".join("'" + part.replace("'", "''") + "'" for part in (user, host))
