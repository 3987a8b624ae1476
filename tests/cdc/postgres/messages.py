"""Messages of pgoutput, as a server sends them."""

from __future__ import annotations

import struct


def row(*values: str | None) -> bytes:
    """`u` stands for an unchanged value."""
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value == "u":
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
    return b"".join(parts)


def data(lsn: int, content: bytes) -> bytes:
    """With the header of the replication protocol."""
    return struct.pack(">cQQq", b"w", lsn, lsn, 0) + content


def begin(commit_lsn: int, committed_us: int, xid: int) -> bytes:
    return b"B" + struct.pack(">QqI", commit_lsn, committed_us, xid)


def commit(commit_lsn: int, end_lsn: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, commit_lsn, end_lsn, 0)


def change(kind: bytes, relation: int, *rows: bytes) -> bytes:
    """Each row has its kind before it: `N`, `O` or `K`."""
    return kind + struct.pack(">I", relation) + b"".join(rows)
