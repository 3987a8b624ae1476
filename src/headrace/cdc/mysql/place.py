"""A place in the binary log, and where the log ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import pymysql

from headrace.cdc.mysql.connection import Connection, code_of

_SYNTAX_ERROR = 1064


class Place(NamedTuple):
    """Places of one server are ordered: a file has the number of the file before it, plus one."""

    number: int
    position: int
    file: str

    def is_behind(self, other: Place) -> bool:
        return self[:2] > other[:2]


def place(file: str, position: int) -> Place:
    digits = file.rpartition(".")[2]
    return Place(int(digits) if digits.isdigit() else 0, position, file)


class LogEnd(NamedTuple):
    place: Place
    gtid: str
    """every transaction before the place; empty if the server has no ids"""


def log_end(connection: Connection) -> LogEnd:
    """Everything that was committed before the call is before it.

    MariaDB: in a transaction with a consistent snapshot, what the snapshot sees is before it, and nothing else is.
    It needs no permission, unlike the statement of MySQL.
    """
    if not connection.is_mariadb:
        row = _status(connection)
        return LogEnd(
            place(str(row[0]), int(row[1])), str(row[4] or "").replace("\n", "") if len(row) > 4 else ""
        )
    found = {
        _text(name).lower(): _text(value)
        for name, value in connection.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
    }
    file, position = found["binlog_snapshot_file"], int(found["binlog_snapshot_position"])
    gtid = connection.value(f"SELECT BINLOG_GTID_POS({connection.literal(file)}, {position})")
    return LogEnd(place(file, position), _text(gtid or ""))


def log_bytes_after(connection: Connection, at: Place) -> int:
    """How much of the log is behind a place."""
    sizes = [(place(str(row[0]), 0), int(row[1])) for row in connection.execute("SHOW BINARY LOGS")]
    return sum(
        size - at.position if each.number == at.number else size
        for each, size in sizes
        if each.number >= at.number
    )


def _status(connection: Connection) -> tuple[Any, ...]:
    try:
        row = connection.first("SHOW BINARY LOG STATUS")
    except pymysql.err.ProgrammingError as error:
        if code_of(error) != _SYNTAX_ERROR:
            raise
        row = connection.first("SHOW MASTER STATUS")  # before MySQL 8.2
    assert row is not None, "the binary log is off"
    return tuple(each.decode() if isinstance(each, bytes) else each for each in row)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
