"""A replication connection: commands, the stream of messages, and feedback. What messages mean is not known here.

Feedback holds exactly the positions that the caller passes. Nothing is sent on the connection's own account.
"""

from __future__ import annotations

import struct
import time
from typing import NamedTuple

import psycopg
from psycopg import pq

from headrace.cdc.postgres.connection import is_readable, open_connection

# Microseconds between 1970 and 2000, where PostgreSQL's time begins.
POSTGRES_EPOCH_US = 946_684_800_000_000

_DATA = ord("w")
_KEEPALIVE = ord("k")
_DATA_HEADER_BYTES = 25
_keepalive = struct.Struct(">QqB").unpack_from
_start_lsn = struct.Struct(">Q").unpack_from
_feedback = struct.Struct(">cQQQqB").pack


class Data(NamedTuple):
    """A message of the output plugin begins at `DATA_OFFSET` of `content`: slicing it off would copy it."""

    lsn: int
    content: bytes


class Keepalive(NamedTuple):
    """Everything before `lsn` has been sent."""

    lsn: int
    needs_reply: bool


DATA_OFFSET = _DATA_HEADER_BYTES

AHEAD_MESSAGES = 8_000
AHEAD_BYTES = 2_000_000
"""that are read together: a bound of memory"""


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_number(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def parse(message: bytes) -> Data | Keepalive:
    if message[0] == _DATA:
        return Data(_start_lsn(message, 1)[0], message)
    assert message[0] == _KEEPALIVE, f"replication message {message[:1]!r} is unknown"
    lsn, _, needs_reply = _keepalive(message, 1)
    return Keepalive(lsn, bool(needs_reply))


class ReplicationConnection:
    def __init__(self, address: str) -> None:
        self._connection = open_connection(address, replication="database")
        self._libpq = self._connection.pgconn

    def send(self, command: str) -> None:
        """Begin a command; `result` has its end."""
        self._libpq.send_query(command.encode())

    def result(self, *, wait_s: float) -> list[str] | None:
        """The row that the command returns, empty for a stream; None if it still runs after `wait_s`."""
        while self._libpq.is_busy():
            if not is_readable(self._libpq.socket, wait_s):
                return None
            self._libpq.consume_input()
        found = self._libpq.get_result()
        if found is None or found.status == pq.ExecStatus.COPY_BOTH:
            return []
        while self._libpq.get_result() is not None:
            pass  # the next command may begin only after the last result
        if found.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise psycopg.errors.error_from_result(found, encoding="utf-8")
        fields = range(found.nfields if found.ntuples else 0)
        return [(found.get_value(0, at) or b"").decode() for at in fields]

    def read(self, *, wait_s: float) -> list[bytes]:
        """The next messages of the stream, as far as they have arrived: none if there is none within `wait_s`. A
        keepalive is the last one of them. `parse` tells what they are."""
        messages: list[bytes] = []
        size = 0
        get, pause_s = self._libpq.get_copy_data, wait_s
        while True:
            count, content = get(1)
            if count > 0:
                messages.append(message := bytes(content))
                size += count
                if message[0] != _DATA or len(messages) >= AHEAD_MESSAGES or size >= AHEAD_BYTES:
                    return messages
            elif count < 0:
                if messages:
                    return messages
                self._raise_end()
            elif is_readable(self._libpq.socket, pause_s):
                self._libpq.consume_input()
                pause_s = 0
            else:
                return messages

    def _raise_end(self) -> None:
        found = self._libpq.get_result()
        if found is not None and found.status == pq.ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(found, encoding="utf-8")
        raise psycopg.OperationalError("the server ended the stream")

    def feedback(self, *, received: int, confirmed: int, needs_reply: bool = False) -> None:
        sent_us = time.time_ns() // 1_000 - POSTGRES_EPOCH_US
        self._libpq.put_copy_data(_feedback(b"r", received, confirmed, confirmed, sent_us, needs_reply))
        self._libpq.flush()

    def close(self) -> None:
        self._connection.close()
