"""Bytes of the binary log to messages. No I/O.

Events that a capture has no use for are `Other`. An event that may hold changes and cannot be decoded is `Unreadable`:
to skip it would lose them.
"""

from __future__ import annotations

import struct
import zlib
from uuid import UUID

from msgspec import Struct

HEADER = struct.Struct("<IBIIIH")
_TABLE_ID_BYTES = 6
_CHECKSUM_BYTES = 4
_CRC32 = 1

QUERY, STOP, ROTATE, FORMAT, XID, TABLE_MAP, INCIDENT, HEARTBEAT = 2, 3, 4, 15, 16, 19, 26, 27
GTID, ANONYMOUS_GTID, XA_PREPARE, TAGGED_GTID = 33, 34, 38, 42
MARIADB_GTID = 162
_WRITE, _UPDATE, _DELETE = frozenset({23, 30}), frozenset({24, 31}), frozenset({25, 32})
_ROWS = _WRITE | _UPDATE | _DELETE
_SECOND_VERSION = frozenset({30, 31, 32})
_UNREADABLE = {
    11: "LOAD DATA in statement format",
    17: "LOAD DATA in statement format",
    18: "LOAD DATA in statement format",
    20: "rows of MySQL 5.1",
    21: "rows of MySQL 5.1",
    22: "rows of MySQL 5.1",
    26: "an incident: the server has lost events",
    39: "a part of a JSON value (binlog_row_value_options)",
    40: "a compressed transaction (binlog_transaction_compression)",
    **dict.fromkeys(range(165, 172), "a compressed event (log_bin_compress)"),
}
_STANDALONE, _PREPARED_XA = 1, 64


class Rotate(Struct, frozen=True):
    file: str
    position: int


class Query(Struct, frozen=True):
    """A statement: DDL, BEGIN and COMMIT. `collation` is the number of the client's."""

    database: str
    statement: bytes
    collation: int | None


class Begin(Struct, frozen=True):
    """A group of events that belong together. `gtid` is empty if the server has none."""

    gtid: str
    is_standalone: bool
    """one statement, without a commit"""
    is_xa: bool = False
    """the first phase of an XA transaction: whether it is committed, a later group says"""


class Commit(Struct, frozen=True):
    pass


class TableMap(Struct, frozen=True):
    table_id: int
    content: bytes
    """names, columns and metadata: `tablemap.parse` reads them"""


class Rows(Struct, frozen=True):
    table_id: int
    op: str
    """c, u or d"""
    columns: int
    content: bytes
    at: int
    """where the bitmaps of the columns begin; the rows follow them"""


class Heartbeat(Struct, frozen=True):
    """The server has sent everything up to its position, and has nothing more."""

    file: str


class Prepared(Struct, frozen=True):
    """The end of the first phase of an XA transaction."""


class Unreadable(Struct, frozen=True):
    what: str


class Other(Struct, frozen=True):
    pass


Message = Rotate | Query | Begin | Commit | TableMap | Rows | Heartbeat | Prepared | Unreadable | Other
_OTHER = Other()
_COMMIT = Commit()


class CorruptEvent(Exception):
    """An event whose checksum does not match. The argument is where it begins in its file."""


class LogEvent(Struct, frozen=True):
    at_s: int
    """when the statement began, in seconds since 1970; 0 for an event that is not in the log"""
    server_id: int
    start: int
    """where the event begins in its file; 0 for an event that is not in the log"""
    end: int
    message: Message


class Decoder:
    """Decodes the events of one connection. Their checksums depend on the file that they are in."""

    def __init__(self) -> None:
        self._has_checksums = False

    def decode(self, packet: bytes) -> LogEvent:
        """`packet` is one event."""
        at_s, kind, server_id, size, end, _flags = HEADER.unpack_from(packet)
        content = packet[:-_CHECKSUM_BYTES]
        is_checked = zlib.crc32(content) == int.from_bytes(packet[-_CHECKSUM_BYTES:], "little")
        if kind == FORMAT:
            self._has_checksums = packet[-_CHECKSUM_BYTES - 1] == _CRC32
        elif not is_checked:
            # The server does not check its own events, such as the one that names a file.
            if self._has_checksums and end:
                raise CorruptEvent(end - size)
            content = packet
        start = end - size if end else 0
        return LogEvent(at_s, server_id, start, end, _message(kind, server_id, content))


def _message(kind: int, server_id: int, packet: bytes) -> Message:
    at = HEADER.size
    if kind in _ROWS:
        return _rows(kind, packet, at)
    if kind == TABLE_MAP:
        table_id = int.from_bytes(packet[at : at + _TABLE_ID_BYTES], "little")
        return TableMap(table_id, packet[at + _TABLE_ID_BYTES + 2 :])
    if kind == XID:
        return _COMMIT
    if kind == MARIADB_GTID:
        number, domain, flags = struct.unpack_from("<QIB", packet, at)
        return Begin(f"{domain}-{server_id}-{number}", bool(flags & _STANDALONE), bool(flags & _PREPARED_XA))
    if kind == GTID:
        (number,) = struct.unpack_from("<Q", packet, at + 17)
        return Begin(f"{UUID(bytes=packet[at + 1 : at + 17])}:{number}", is_standalone=False)
    if kind in (ANONYMOUS_GTID, TAGGED_GTID):
        return Begin("", is_standalone=False)
    if kind == QUERY:
        return _query(packet, at)
    if kind == ROTATE:
        (position,) = struct.unpack_from("<Q", packet, at)
        return Rotate(packet[at + 8 :].decode(), position)
    if kind == HEARTBEAT:
        return Heartbeat(packet[at:].decode())
    if kind == XA_PREPARE:
        return Prepared()
    return Unreadable(_UNREADABLE[kind]) if kind in _UNREADABLE else _OTHER


def _rows(kind: int, packet: bytes, at: int) -> Rows:
    table_id = int.from_bytes(packet[at : at + _TABLE_ID_BYTES], "little")
    at += _TABLE_ID_BYTES + 2
    if kind in _SECOND_VERSION:
        (extra,) = struct.unpack_from("<H", packet, at)  # with its own two bytes
        at += extra
    columns, at = length_encoded(packet, at)
    op = "c" if kind in _WRITE else "u" if kind in _UPDATE else "d"
    return Rows(table_id, op, columns, packet, at)


def _query(packet: bytes, at: int) -> Query:
    _thread, _seconds, database_bytes, _error, status_bytes = struct.unpack_from("<IIBHH", packet, at)
    at += 13
    collation = _client_collation(packet[at : at + status_bytes])
    at += status_bytes
    database = packet[at : at + database_bytes].decode("utf-8", "replace")
    return Query(database, packet[at + database_bytes + 1 :], collation)


def _client_collation(status: bytes) -> int | None:
    """Of the variables that the server writes before a statement, the fifth kind; others come before it."""
    sizes = {0: 4, 1: 8, 3: 4}
    at = 0
    while at < len(status):
        kind = status[at]
        if kind == 4:
            return int.from_bytes(status[at + 1 : at + 3], "little")
        if kind == 6:  # the catalog, with its length
            at += 2 + status[at + 1]
        elif kind in sizes:
            at += 1 + sizes[kind]
        else:
            return None
    return None


def length_encoded(data: bytes, at: int) -> tuple[int, int]:
    """A number of MySQL's protocol, and the position after it."""
    first = data[at]
    if first < 251:
        return first, at + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
