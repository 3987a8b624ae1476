"""The description of a table that the binary log has before its rows: types always, names if the server logs them.

`binlog_row_metadata` decides how much there is: names, keys and values of enums with FULL, signs and character sets
with MINIMAL, nothing of it with NO_LOG.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec import Struct

from headrace.cdc.mysql.binlog import length_encoded

(
    TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT,
    TIMESTAMP2, DATETIME2, TIME2,
) = 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19  # fmt: skip
BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, JSON, NEWDECIMAL, ENUM, SET = 140, 141, 242, 245, 246, 247, 248
BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255

T = TypeVar("T")

_ONE_BYTE = frozenset(
    {FLOAT, DOUBLE, BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR, TIMESTAMP2, DATETIME2, TIME2}
)
_TWO_BYTES = frozenset({VARCHAR, VARCHAR_COMPRESSED, BIT})
_BIG_ENDIAN = frozenset({STRING, VAR_STRING, ENUM, SET, NEWDECIMAL})
_WITH_SIGN = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR})
_WITH_CHARSET = frozenset({STRING, VAR_STRING, VARCHAR, BLOB})
_SIGNS, _DEFAULT_CHARSET, _CHARSETS, _NAMES, _SETS, _ENUMS = 1, 2, 3, 4, 5, 6
_KEY, _PREFIX_KEY, _ENUM_DEFAULT_CHARSET, _ENUM_CHARSETS = 8, 9, 10, 11


class MapColumn(Struct, frozen=True, kw_only=True):
    type: int
    metadata: int
    """what the type needs to read a value: length, precision, digits of the second"""
    optional: bool
    name: str | None = None
    is_unsigned: bool | None = None
    collation: int | None = None
    values: tuple[bytes, ...] = ()
    """of an enum or a set, in its character set"""


class TableDescription(Struct, frozen=True, kw_only=True):
    database: str
    table: str
    columns: tuple[MapColumn, ...]
    key: tuple[int, ...] | None
    """numbers of columns; None if the server logs no names"""

    @property
    def path(self) -> tuple[str, str]:
        return self.database, self.table


def parse_path(content: bytes) -> tuple[str, str]:
    """Only the names, which most tables are skipped by."""
    length = content[0]
    after = length + 2
    return content[1 : length + 1].decode(), content[after + 1 : after + 1 + content[after]].decode()


def parse(content: bytes, *, is_mariadb: bool) -> TableDescription:
    """The servers differ in which columns have a character set: to MariaDB a geometry is one."""
    database, table = parse_path(content)
    at = content[0] + 2
    at += content[at] + 2
    count, at = length_encoded(content, at)
    coarse_types = content[at : at + count]
    size, at = length_encoded(content, at + count)
    metadata = _metadata(coarse_types, content[at : at + size])
    at += size
    nullable = _bits_low_first(content[at:], count)
    fields = _fields(content, at + (count + 7) // 8)
    types = [kind for kind, _ in metadata]
    names = _strings(fields[_NAMES]) if _NAMES in fields else []
    signs = _spread(types, _WITH_SIGN, _bits_high_first(fields.get(_SIGNS, b"")))
    with_charset = _WITH_CHARSET | {GEOMETRY} if is_mariadb else _WITH_CHARSET
    collations = _collations(types, with_charset, fields, _DEFAULT_CHARSET, _CHARSETS)
    enum_collations = _collations(types, {ENUM, SET}, fields, _ENUM_DEFAULT_CHARSET, _ENUM_CHARSETS)
    enums = _spread(types, {ENUM}, _string_lists(fields.get(_ENUMS, b"")))
    sets = _spread(types, {SET}, _string_lists(fields.get(_SETS, b"")))
    columns = tuple(
        MapColumn(
            type=types[each],
            metadata=metadata[each][1],
            optional=nullable[each],
            name=names[each].decode() if names else None,
            is_unsigned=signs.get(each),
            collation=collations.get(each, enum_collations.get(each)),
            values=tuple(enums.get(each) or sets.get(each) or ()),
        )
        for each in range(count)
    )
    return TableDescription(
        database=database, table=table, columns=columns, key=_key(fields) if names else None
    )


def _metadata(types: bytes, data: bytes) -> list[tuple[int, int]]:
    """The real type of each column, and its metadata as a number."""
    found = []
    at = 0
    for kind in types:
        size = 1 if kind in _ONE_BYTE else 2 if kind in _TWO_BYTES or kind in _BIG_ENDIAN else 0
        part = data[at : at + size]
        at += size
        if kind == STRING:
            found.append(_string_type(part[0], part[1]))
        else:
            found.append((kind, int.from_bytes(part, "big" if kind in _BIG_ENDIAN else "little")))
    return found


def _string_type(first: int, second: int) -> tuple[int, int]:
    """CHAR, ENUM and SET share a type. Two bits of a length above 255 are in the byte of the real type, inverted."""
    if first & 0x30 != 0x30:
        return first | 0x30, second | ((first & 0x30) ^ 0x30) << 4
    return first, second


def _fields(data: bytes, at: int) -> dict[int, bytes]:
    fields = {}
    while at < len(data):
        kind = data[at]
        size, at = length_encoded(data, at + 1)
        fields[kind] = data[at : at + size]
        at += size
    return fields


def _numbers(data: bytes) -> list[int]:
    found = []
    at = 0
    while at < len(data):
        number, at = length_encoded(data, at)
        found.append(number)
    return found


def _strings(data: bytes) -> list[bytes]:
    found = []
    at = 0
    while at < len(data):
        size, at = length_encoded(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _string_lists(data: bytes) -> list[list[bytes]]:
    found = []
    at = 0
    while at < len(data):
        count, at = length_encoded(data, at)
        values = []
        for _ in range(count):
            size, at = length_encoded(data, at)
            values.append(data[at : at + size])
            at += size
        found.append(values)
    return found


def _key(fields: dict[int, bytes]) -> tuple[int, ...]:
    if _PREFIX_KEY in fields:
        return tuple(_numbers(fields[_PREFIX_KEY])[::2])
    return tuple(_numbers(fields.get(_KEY, b"")))


def _collations(
    types: Sequence[int],
    kinds: frozenset[int] | set[int],
    fields: dict[int, bytes],
    default: int,
    each: int,
) -> dict[int, int]:
    """The collation of each column of these types: one for each, or a usual one and the exceptions from it."""
    columns = [number for number, kind in enumerate(types) if kind in kinds]
    if each in fields:
        return dict(zip(columns, _numbers(fields[each]), strict=True))
    if default not in fields:
        return {}
    usual, *exceptions = _numbers(fields[default])
    found = dict.fromkeys(columns, usual)
    for index, collation in zip(exceptions[::2], exceptions[1::2], strict=True):
        found[columns[index]] = collation
    return found


def _spread(types: Sequence[int], kinds: frozenset[int] | set[int], values: Sequence[T]) -> dict[int, T]:
    """Values that only columns of these types have, by the number of the column."""
    columns = [number for number, kind in enumerate(types) if kind in kinds]
    return dict(zip(columns, values, strict=False))


def _bits_low_first(data: bytes, count: int) -> list[bool]:
    return [bool(data[each // 8] >> each % 8 & 1) for each in range(count)]


def _bits_high_first(data: bytes) -> list[bool]:
    return [bool(byte >> bit & 1) for byte in data for bit in range(7, -1, -1)]
