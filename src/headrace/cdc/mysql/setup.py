"""What a capture needs of the database, checked before anything is read. Each problem names its remedy."""

from __future__ import annotations

from collections.abc import Sequence

import pymysql

from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql.catalog import CatalogTable, captured_tables
from headrace.cdc.mysql.connection import Connection, account, code_of, parse_address, quoted
from headrace.cdc.mysql.place import log_end

_DENIED = (1044, 1142, 1143, 1227)

# Settings of the server, the values that a capture needs, and the statement that sets it. A setting that a server does
# not have is not checked.
_SETTINGS = (
    ("binlog_format", ("ROW",), "SET GLOBAL binlog_format = ROW, and let all programs connect again"),
    ("binlog_row_image", ("FULL",), "SET GLOBAL binlog_row_image = FULL, and let all programs connect again"),
    ("log_bin_compress", ("OFF", "0"), "SET GLOBAL log_bin_compress = OFF"),
    (
        "binlog_transaction_compression",
        ("OFF", "0"),
        "SET GLOBAL binlog_transaction_compression = OFF, and let all programs connect again",
    ),
    (
        "binlog_row_value_options",
        ("",),
        "SET GLOBAL binlog_row_value_options = '', and let all programs connect again",
    ),
)


def checked_tables(
    connection: Connection, address: str, server_id: int, patterns: Sequence[str]
) -> list[CatalogTable]:
    """The captured tables. Raises `BadCapture` for what would prevent the capture; changes nothing."""
    login = parse_address(address)
    user = account(login.user)
    _server(connection, server_id)
    _log_status(connection, login.database, user)
    tables = captured_tables(connection, login.database, patterns)
    if not tables:
        where = f"database {login.database}" if login.database else "the server"
        names = f"{quoted(login.database)}.*" if login.database else "*.*"
        raise BadCapture(
            f"no table of {where} that user {user} sees matches {', '.join(patterns)}",
            hint=f"patterns match TABLE or DATABASE.TABLE; to see tables: GRANT SELECT ON {names} TO {user}",
        )
    for table in tables:
        _table(connection, table, user)
    return tables


def _server(connection: Connection, server_id: int) -> None:
    variables = {
        str(name).lower(): str(text)
        for name, text in connection.execute("SHOW GLOBAL VARIABLES LIKE '%bin%'")
    }
    if variables.get("log_bin", "OFF") != "ON":
        raise BadCapture(
            "the binary log of the server is off",
            hint="add log_bin, binlog_format = ROW and server_id to my.cnf, then restart the server",
        )
    for name, wanted, remedy in _SETTINGS:
        found = variables.get(name)
        if found is not None and found.upper() not in wanted:
            raise BadCapture(
                f"{name} of the server is {found}; change capture needs {wanted[0] or 'it empty'}",
                hint=remedy,
            )
    own_id = int(connection.value("SELECT @@GLOBAL.server_id"))
    if own_id == 0:
        raise BadCapture(
            "server_id of the server is 0: it has no replicas",
            hint="SET GLOBAL server_id = 1, also in my.cnf",
        )
    if own_id == server_id:
        raise BadCapture(
            f"the capture has the server_id {server_id} of the server itself",
            hint="set another one in the address: ?server_id=N",
        )


def _log_status(connection: Connection, database: str, user: str) -> None:
    """MariaDB tells where its log ends without a permission; MySQL, and the filters of both, need one."""
    if connection.is_mariadb:
        log_end(connection)
        statement, grant = "SHOW MASTER STATUS", "BINLOG MONITOR"
    else:
        statement, grant = "SHOW BINARY LOG STATUS", "REPLICATION CLIENT"
    try:
        if not connection.is_mariadb:
            log_end(connection)
            statement = (
                "SHOW MASTER STATUS" if connection.version.startswith(("5.", "8.0", "8.1")) else statement
            )
        row = connection.first(statement)
    except pymysql.Error as error:
        if code_of(error) not in _DENIED:
            raise
        if connection.is_mariadb:
            return  # only the check of the filters needs it
        raise BadCapture(
            f"user {user} may not see the state of the binary log", hint=f"GRANT {grant} ON *.* TO {user}"
        ) from None
    if row is None or not database:
        return
    only, ignored = ({each for each in str(part or "").split(",") if each} for part in row[2:4])
    if (only and database not in only) or database in ignored:
        raise BadCapture(
            f"the binary log of the server does not have database {database}",
            hint="remove it from binlog_ignore_db, or add it to binlog_do_db, and restart the server",
        )


def _table(connection: Connection, table: CatalogTable, user: str) -> None:
    _readable(connection, table, user)
    if not table.key:
        raise BadCapture(
            f"table {table.label} has no primary key",
            hint=f"ALTER TABLE {table.quoted} ADD PRIMARY KEY (…), or choose other tables",
        )
    if not table.is_transactional:
        raise BadCapture(
            f"table {table.label} has the engine {table.engine}, which has no consistent reads",
            hint=f"ALTER TABLE {table.quoted} ENGINE = InnoDB, or choose other tables",
        )
    for spec in table.columns:
        if spec.is_compressed:
            raise BadCapture(
                f"column {spec.name} of table {table.label} is compressed, which cannot be read from the binary log",
                hint=f"ALTER TABLE {table.quoted} MODIFY {quoted(spec.name)} … without COMPRESSED",
            )


def _readable(connection: Connection, table: CatalogTable, user: str) -> None:
    """First: without the permission, the catalog has neither the columns nor the key."""
    try:
        connection.execute(f"SELECT * FROM {table.quoted} LIMIT 0")
        if not connection.is_mariadb:
            connection.execute(f"LOCK TABLES {table.quoted} READ")
            connection.execute("UNLOCK TABLES")
    except pymysql.Error as error:
        if code_of(error) not in _DENIED:
            raise
        rights = "SELECT" if connection.is_mariadb else "SELECT, LOCK TABLES"
        where = table.quoted if connection.is_mariadb else f"{quoted(table.path[0])}.*"
        raise BadCapture(
            f"user {user} may not read table {table.label}", hint=f"GRANT {rights} ON {where} TO {user}"
        ) from None
