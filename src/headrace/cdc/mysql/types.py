"""Columns of MySQL and MariaDB in Debezium's envelope, and their values from the text that the server prints.

As Debezium with its defaults, except that

- DECIMAL is a text (`decimal.handling.mode=string`), because JSON has no decimals,
- BIGINT UNSIGNED is the exact number, also above the 64 bits with sign of Kafka Connect's schema,
- DATETIME is microseconds, whatever its precision,
- BIT(1) is a boolean; longer ones are texts of 0 and 1,
- a geometry is its well-known binary in base64, with the SRID as PostGIS has it (EWKB) unless that is 0.

A date that is none (0000-00-00) is null, or 1970-01-01 in a column that is NOT NULL.
"""

from __future__ import annotations

import re
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.cdc.change import Column, ColumnType
from headrace.cdc.mysql.times import days_of_text, micros_of_text, time_of_text, zoned_of_text

Convert = Callable[[bytes], Any]
"""From the bytes that the server prints to what JSON holds."""

EPOCH_ZONED = "1970-01-01T00:00:00Z"
GEOMETRIES = frozenset(
    {
        "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon",
        "geometrycollection", "geomcollection",
    }
)  # fmt: skip
TEXTS = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "vector"})
INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})


class Spec(Struct, frozen=True, kw_only=True):
    """A column, as far as its values depend on it."""

    name: str
    type: str
    """DATA_TYPE of information_schema, in lower case"""
    optional: bool = True
    is_unsigned: bool = False
    charset: str | None = None
    """of a text"""
    length: int = 0
    """in bytes, of a text or of bytes; in bits, of a BIT"""
    precision: int = 0
    scale: int = 0
    """of a DECIMAL; digits of the second of a time"""
    values: tuple[str, ...] = ()
    """of an ENUM or a SET"""
    is_json: bool = False
    """a text of MariaDB that was declared as JSON"""
    is_compressed: bool = False


_PLAIN: Mapping[str, tuple[ColumnType, str | None]] = {
    "tinyint": ("int16", None),
    "smallint": ("int16", None),
    "mediumint": ("int32", None),
    "int": ("int32", None),
    "bigint": ("int64", None),
    "float": ("float", None),
    "double": ("double", None),
    "decimal": ("string", None),
    "date": ("int32", "io.debezium.time.Date"),
    "time": ("int64", "io.debezium.time.MicroTime"),
    "datetime": ("int64", "io.debezium.time.MicroTimestamp"),
    "timestamp": ("string", "io.debezium.time.ZonedTimestamp"),
    "year": ("int32", "io.debezium.time.Year"),
    "enum": ("string", "io.debezium.data.Enum"),
    "set": ("string", "io.debezium.data.EnumSet"),
    "json": ("string", "io.debezium.data.Json"),
    "uuid": ("string", "io.debezium.data.Uuid"),
    "inet4": ("string", None),
    "inet6": ("string", None),
}
_UNSIGNED: Mapping[str, ColumnType] = {"smallint": "int32", "int": "int64"}


def column(spec: Spec) -> Column:
    if spec.type == "bit":
        kind: ColumnType = "boolean" if spec.length == 1 else "string"
        semantic = None
    elif spec.type in BYTES or spec.type in GEOMETRIES:
        kind, semantic = "bytes", None
    elif spec.is_json:
        kind, semantic = "string", "io.debezium.data.Json"
    else:
        kind, semantic = _PLAIN.get(spec.type, ("string", None))
    if spec.is_unsigned:
        kind = _UNSIGNED.get(spec.type, kind)
    return Column(name=spec.name, type=kind, semantic=semantic, optional=spec.optional)


def base64_text(data: bytes) -> str:
    return b64encode(data).decode()


def bits_text(data: bytes, bits: int) -> str | bool:
    number = int.from_bytes(data, "big")
    return bool(number) if bits == 1 else f"{number:0{bits}b}"


def geometry_text(data: bytes) -> str:
    """The server stores the SRID and then the well-known binary."""
    (srid,) = struct.unpack_from("<I", data)
    wkb = data[4:]
    if srid:
        order = "<" if wkb[0] == 1 else ">"
        (kind,) = struct.unpack_from(f"{order}I", wkb, 1)
        wkb = wkb[:1] + struct.pack(f"{order}II", kind | 0x2000_0000, srid) + wkb[5:]
    return base64_text(wkb)


def single(number: float) -> float:
    """A FLOAT with as few digits as distinguish it from its neighbours, as it was written."""
    for digits in range(6, 10):
        shorter = float(f"{number:.{digits}g}")
        if struct.pack("<f", shorter) == struct.pack("<f", number):
            return shorter
    return number


def no_date(spec: Spec) -> Any:
    """The value of a date that is none."""
    if spec.optional:
        return None
    return EPOCH_ZONED if spec.type == "timestamp" else 0


def from_text(spec: Spec) -> Convert:
    """How a value that a SELECT prints becomes what JSON holds. `select_expression` has to be selected."""
    if spec.type in INTEGERS or spec.type == "year":
        return int
    if spec.type == "float":
        return lambda data: single(float(data))
    if spec.type == "double":
        return float
    if spec.type == "bit":
        return lambda data: bits_text(data, spec.length)
    if spec.type in BYTES:
        return base64_text
    if spec.type in GEOMETRIES:
        return geometry_text
    if spec.type == "time":
        return lambda data: time_of_text(data.decode())
    dates: Mapping[str, Callable[[str], Any]] = {
        "date": days_of_text,
        "datetime": micros_of_text,
        "timestamp": zoned_of_text,
    }
    if spec.type in dates:
        convert, none = dates[spec.type], no_date(spec)
        return lambda data: none if (value := convert(data.decode())) is None else value
    return lambda data: data.decode("utf-8", "replace")


def select_expression(spec: Spec, name: str) -> str:
    """`name` is quoted. The server prints a FLOAT with six digits only; as a DOUBLE it has them all."""
    return f"{name} + 0e0" if spec.type == "float" else name


_VALUE = re.compile(r"'((?:[^'\\]|''|\\.)*)'")


def parse_values(column_type: str) -> tuple[str, ...]:
    """From `enum('a','it''s')`."""
    return tuple(found.replace("''", "'").replace("\\\\", "\\") for found in _VALUE.findall(column_type))
