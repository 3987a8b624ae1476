"""The messages of PostgreSQL's output plugin `pgoutput`, protocol version 1: bytes in, values out. No I/O.

A value of a row is its text, None for null, or `UNCHANGED`. This is the hot path of a capture.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from headrace.cdc.change import UNAVAILABLE
from headrace.errors import HeadraceError

UNCHANGED: Final = UNAVAILABLE
"""A large value that an update did not change. The server does not send it. It is this object: a row may hold an equal
text."""

Value = str | None
Values = list[Value]


class BadMessage(HeadraceError):
    """Bytes that are no message of pgoutput, protocol version 1."""


class Begin(Struct, frozen=True, kw_only=True):
    commit_lsn: int
    committed_us: int
    """since 2000"""
    xid: int


class Commit(Struct, frozen=True, kw_only=True):
    commit_lsn: int
    end_lsn: int
    committed_us: int


class Origin(Struct, frozen=True, kw_only=True):
    lsn: int
    name: str


class RelationColumn(Struct, frozen=True, kw_only=True):
    name: str
    type_oid: int
    type_modifier: int
    is_key: bool
    """in the replica identity"""


class Relation(Struct, frozen=True, kw_only=True):
    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[RelationColumn, ...]


class Type(Struct, frozen=True, kw_only=True):
    oid: int
    schema: str
    name: str


class Insert(Struct, frozen=True, kw_only=True):
    relation: int
    new: Values


class Update(Struct, frozen=True, kw_only=True):
    relation: int
    old: Values | None
    """the old key if it has changed, or the old row; None if neither is known"""
    is_old_whole: bool
    new: Values


class Delete(Struct, frozen=True, kw_only=True):
    relation: int
    old: Values
    is_old_whole: bool


class Truncate(Struct, frozen=True, kw_only=True):
    relations: tuple[int, ...]


class LogicalMessage(Struct, frozen=True, kw_only=True):
    is_transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate | LogicalMessage

_u8_u16 = struct.Struct(">BH").unpack_from
_u16 = struct.Struct(">H").unpack_from
_u32 = struct.Struct(">I").unpack_from
_u32_u8 = struct.Struct(">IB").unpack_from
_u64 = struct.Struct(">Q").unpack_from
_begin = struct.Struct(">QqI").unpack_from
_commit = struct.Struct(">BQQq").unpack_from
_column_type = struct.Struct(">Ii").unpack_from
_truncate = struct.Struct(">IB").unpack_from
_logical = struct.Struct(">BQ").unpack_from

_TEXT, _NULL, _UNCHANGED = b"tnu"
_NEW, _OLD, _KEY = b"NOK"


def decode(data: bytes, offset: int = 0) -> Message:
    """The message that begins at `offset` and fills the rest of `data`."""
    try:
        message, end = _DECODERS[data[offset]](data, offset + 1)
    except (IndexError, KeyError, ValueError, struct.error) as error:
        raise _bad(data, offset) from error
    if end != len(data):
        raise _bad(data, offset)
    return message


def _bad(data: bytes, offset: int) -> BadMessage:
    return BadMessage(
        f"message {data[offset : offset + 1]!r} of {len(data) - offset} bytes is not pgoutput version 1",
        hint="report it with the version of the server",
    )


def _values(data: bytes, at: int) -> tuple[Values, int]:
    (count,) = _u16(data, at)
    at += 2
    values: Values = []
    append = values.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _u32(data, at + 1)[0]
            # A database with the encoding SQL_ASCII may hold any bytes; JSON cannot.
            append(data[start:at].decode("utf-8", "replace"))
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _UNCHANGED:
            append(UNCHANGED)
            at += 1
        else:
            raise ValueError(kind)
    return values, at


def _insert(data: bytes, at: int) -> tuple[Message, int]:
    relation, kind = _u32_u8(data, at)
    if kind != _NEW:
        raise ValueError(kind)
    values, at = _values(data, at + 5)
    return Insert(relation=relation, new=values), at


def _update(data: bytes, at: int) -> tuple[Message, int]:
    relation, kind = _u32_u8(data, at)
    at += 5
    old = None
    is_old_whole = kind == _OLD
    if kind == _KEY or is_old_whole:
        old, at = _values(data, at)
        kind = data[at]
        at += 1
    if kind != _NEW:
        raise ValueError(kind)
    new, at = _values(data, at)
    return Update(relation=relation, old=old, is_old_whole=is_old_whole, new=new), at


def _delete(data: bytes, at: int) -> tuple[Message, int]:
    relation, kind = _u32_u8(data, at)
    if kind not in (_KEY, _OLD):
        raise ValueError(kind)
    old, at = _values(data, at + 5)
    return Delete(relation=relation, old=old, is_old_whole=kind == _OLD), at


def _decode_begin(data: bytes, at: int) -> tuple[Message, int]:
    commit_lsn, committed_us, xid = _begin(data, at)
    return Begin(commit_lsn=commit_lsn, committed_us=committed_us, xid=xid), at + 20


def _decode_commit(data: bytes, at: int) -> tuple[Message, int]:
    _, commit_lsn, end_lsn, committed_us = _commit(data, at)
    return Commit(commit_lsn=commit_lsn, end_lsn=end_lsn, committed_us=committed_us), at + 25


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode("utf-8", "replace"), end + 1


def _origin(data: bytes, at: int) -> tuple[Message, int]:
    (lsn,) = _u64(data, at)
    name, at = _text(data, at + 8)
    return Origin(lsn=lsn, name=name), at


def _relation(data: bytes, at: int) -> tuple[Message, int]:
    (oid,) = _u32(data, at)
    schema, at = _text(data, at + 4)
    name, at = _text(data, at)
    identity, count = _u8_u16(data, at)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, type_modifier = _column_type(data, at)
        at += 8
        columns.append(
            RelationColumn(
                name=column, type_oid=type_oid, type_modifier=type_modifier, is_key=bool(flags & 1)
            )
        )
    # An empty schema stands for pg_catalog.
    relation = Relation(
        oid=oid,
        schema=schema or "pg_catalog",
        name=name,
        replica_identity=chr(identity),
        columns=tuple(columns),
    )
    return relation, at


def _type(data: bytes, at: int) -> tuple[Message, int]:
    (oid,) = _u32(data, at)
    schema, at = _text(data, at + 4)
    name, at = _text(data, at)
    return Type(oid=oid, schema=schema or "pg_catalog", name=name), at


def _decode_truncate(data: bytes, at: int) -> tuple[Message, int]:
    count, _ = _truncate(data, at)
    at += 5
    end = at + 4 * count
    return Truncate(relations=struct.unpack(f">{count}I", data[at:end])), end


def _logical_message(data: bytes, at: int) -> tuple[Message, int]:
    flags, lsn = _logical(data, at)
    prefix, at = _text(data, at + 9)
    start = at + 4
    end = start + _u32(data, at)[0]
    message = LogicalMessage(
        is_transactional=bool(flags & 1), lsn=lsn, prefix=prefix, content=data[start:end]
    )
    return message, end


_DECODERS: dict[int, Callable[[bytes, int], tuple[Message, int]]] = {
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("B"): _decode_begin,
    ord("C"): _decode_commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("T"): _decode_truncate,
    ord("M"): _logical_message,
}
