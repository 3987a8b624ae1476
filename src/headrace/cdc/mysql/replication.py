"""The connection that streams the binary log: the capture asks for it as a replica does.

Of the package mysql-replication only the parts without a connection are used (GTID sets, binary JSON). Its reader
connects again by itself after an error, in the middle of a transaction, and then skips the rows whose table it has not
seen; it also skips events that it does not know.
"""

from __future__ import annotations

import secrets
import struct
import zlib

import pymysql

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.mysql.binlog import CorruptEvent, Decoder, LogEvent
from headrace.cdc.mysql.connection import Connection, account, code_of, meaning, parse_address, text_of
from headrace.cdc.mysql.gtid import encoded, is_mariadb
from headrace.redaction import redacted

HEARTBEAT_S = 0.1
"""An idle server sends one in this interval: the stream is never silent, and a server that is gone is noticed."""

SILENCE_S = 30.0
"""without an event or a heartbeat: the connection is lost"""

_DUMP, _DUMP_GTID = 0x12, 0x1E
_THROUGH_GTID = 4
_FATAL = 1236
_DENIED = (1045, 1227)
_PURGED_SIGNS = (
    "could not find first log",
    "purged",
    "could not find gtid",
    "impossible position",
    "not in the master's binlog",
    "could not open log file",
    "log file name too long",
)

PURGED_HINT = (
    "`headrace cdc remove` and `add` the capture, which starts with a new snapshot; to keep the log for longer, raise"
    " binlog_expire_logs_seconds (expire_logs_days)"
)


def server_id(name: str, address: str) -> int:
    """The number of the capture among the replicas of a server: its own, and the same at each start, so that the
    server ends the connection that a killed capture has left."""
    given = parse_address(address).server_id
    return given if given is not None else 0x4000_0000 | zlib.crc32(name.encode()) & 0x3FFF_FFFF


def trial_server_id() -> int:
    """A number that no capture has by its name, for a stream that only shows whether it is allowed."""
    return 0x8000_0000 | secrets.randbits(31)


class Replication:
    """`file` and `position` are used if `gtid` is empty."""

    def __init__(self, address: str, *, server_id: int, file: str, position: int, gtid: str) -> None:
        self._address = address
        self._decoder = Decoder()
        self._connection = Connection(address, read_timeout_s=SILENCE_S)
        try:
            self._start(server_id, file, position, gtid)
        except BaseException as error:
            self.close()
            if isinstance(error, pymysql.Error | OSError):
                raise self._failure(error) from None
            raise

    def _start(self, number: int, file: str, position: int, gtid: str) -> None:
        settings = {
            "master_binlog_checksum": "@@GLOBAL.binlog_checksum",
            "source_binlog_checksum": "@@GLOBAL.binlog_checksum",
            "master_heartbeat_period": str(int(HEARTBEAT_S * 1_000_000_000)),
            "source_heartbeat_period": str(int(HEARTBEAT_S * 1_000_000_000)),
            # With less, MariaDB replaces events that a replica of MySQL does not know.
            "mariadb_slave_capability": "4",
        }
        if gtid and is_mariadb(gtid):
            settings["slave_connect_state"] = self._connection.literal(gtid)
            settings["slave_gtid_strict_mode"] = "1"
            settings["slave_gtid_ignore_duplicates"] = "0"
            file, position = "", 4
        self._connection.execute("SET " + ", ".join(f"@{name} = {text}" for name, text in settings.items()))
        if gtid and not is_mariadb(gtid):
            known = encoded(gtid)
            command = _DUMP_GTID
            content = struct.pack("<HIIQI", _THROUGH_GTID, number, 0, 4, len(known)) + known
        else:
            command = _DUMP
            content = struct.pack("<IHI", position, 0, number) + file.encode()
        self._connection.driver._execute_command(command, content)

    def read(self) -> LogEvent:
        """The next event. Waits for it no longer than `HEARTBEAT_S`, if the server responds."""
        try:
            packet: bytes = self._connection.driver._read_packet().get_all_data()
        except (pymysql.Error, OSError) as error:
            raise self._failure(error) from None
        if packet[0] == 0xFE:
            raise SourceUnavailable(
                f"{redacted(self._address)} ended the stream of the binary log",
                hint="see the log of the server",
            )
        try:
            return self._decoder.decode(packet[1:])
        except CorruptEvent as corrupt:
            raise SourceUnavailable(
                f"an event of the binary log of {redacted(self._address)} has the wrong checksum, at position"
                f" {corrupt.args[0]}",
                hint="if it happens again, the log is damaged: " + PURGED_HINT,
            ) from None

    def _failure(self, error: Exception) -> BadCapture | SourceUnavailable:
        code, text = code_of(error), text_of(error)
        if code in _DENIED:
            user = account(parse_address(self._address).user)
            return BadCapture(
                f"user {user} may not read the binary log of {redacted(self._address)}",
                hint=f"GRANT REPLICATION SLAVE ON *.* TO {user}",
            )
        if code != _FATAL:
            return meaning(error, self._address)
        if any(sign in text.lower() for sign in _PURGED_SIGNS):
            return BadCapture(
                f"{redacted(self._address)} does not have the changes after the last captured one any more: {text}",
                hint=PURGED_HINT,
            )
        if "same server" in text.lower():
            return SourceUnavailable(
                f"another replica of {redacted(self._address)} has the capture's server_id: {text}",
                hint="set another one in the address: ?server_id=N",
            )
        return BadCapture(
            f"{redacted(self._address)} cannot read its binary log: {text}", hint="see the log of the server"
        )

    def close(self) -> None:
        self._connection.close()
