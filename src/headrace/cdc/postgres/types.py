"""PostgreSQL's types in Debezium's envelope: the `Column` of a type, and its values from text to JSON.

As Debezium with its defaults, except that

- numeric and money are texts (`decimal.handling.mode=string`), because JSON has no decimals,
- NaN and infinities of float4 and float8 are the texts "NaN", "Infinity" and "-Infinity", because JSON has neither,
- interval is a text in ISO 8601 (`interval.handling.mode=string`),
- bit strings are texts of 0 and 1; bit(1) is a boolean, as with Debezium,
- ranges, addresses, geometric, text search and all unknown types are the texts that PostgreSQL prints.

The values of a domain are those of its base type.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from math import isfinite
from typing import Any

from msgspec import Struct

from headrace.cdc.change import Column, ColumnType
from headrace.cdc.postgres.arrays import parse_array
from headrace.cdc.postgres.times import (
    days,
    micros,
    micros_of_day,
    millis,
    millis_of_day,
    zoned_time,
    zoned_timestamp,
)

Convert = Callable[[str], Any]
"""From the text of a value that is not null to what JSON holds."""


class TypeInfo(Struct, frozen=True, kw_only=True):
    """A row of pg_type, as far as values depend on it."""

    oid: int
    name: str
    kind: str = "b"
    """typtype: b base, c composite, d domain, e enum, r range, m multirange"""
    item_oid: int = 0
    """of an array"""
    base_oid: int = 0
    """of a domain"""
    base_modifier: int = -1
    """of a domain"""
    delimiter: str = ","
    """between the items of an array"""


class Shape(Struct, frozen=True, kw_only=True):
    """How the values of a type look in the envelope. `convert` is None if they are the text itself."""

    type: ColumnType
    semantic: str | None = None
    items: ColumnType | None = None
    convert: Convert | None = None

    def column(self, name: str, *, optional: bool) -> Column:
        return Column(name=name, type=self.type, semantic=self.semantic, items=self.items, optional=optional)


def read_boolean(text: str) -> bool:
    return text == "t"


def _bit(text: str) -> bool:
    return text == "1"


def read_number(text: str) -> float | str:
    number = float(text)
    return number if isfinite(number) else text


def _base64(text: str) -> str:
    return b64encode(bytes.fromhex(text[2:])).decode()


_TEXT = Shape(type="string")

_SHAPES: Mapping[str, Shape] = {
    "bool": Shape(type="boolean", convert=read_boolean),
    "int2": Shape(type="int16", convert=int),
    "int4": Shape(type="int32", convert=int),
    "int8": Shape(type="int64", convert=int),
    "oid": Shape(type="int64", convert=int),
    "float4": Shape(type="float", convert=read_number),
    "float8": Shape(type="double", convert=read_number),
    "date": Shape(type="int32", semantic="io.debezium.time.Date", convert=days),
    "time": Shape(type="int64", semantic="io.debezium.time.MicroTime", convert=micros_of_day),
    "timetz": Shape(type="string", semantic="io.debezium.time.ZonedTime", convert=zoned_time),
    "timestamp": Shape(type="int64", semantic="io.debezium.time.MicroTimestamp", convert=micros),
    "timestamptz": Shape(type="string", semantic="io.debezium.time.ZonedTimestamp", convert=zoned_timestamp),
    "interval": Shape(type="string", semantic="io.debezium.time.Interval"),
    "uuid": Shape(type="string", semantic="io.debezium.data.Uuid"),
    "json": Shape(type="string", semantic="io.debezium.data.Json"),
    "jsonb": Shape(type="string", semantic="io.debezium.data.Json"),
    "xml": Shape(type="string", semantic="io.debezium.data.Xml"),
    "bytea": Shape(type="bytes", convert=_base64),
}
_MILLIS: Mapping[str, Shape] = {
    "time": Shape(type="int32", semantic="io.debezium.time.Time", convert=millis_of_day),
    "timestamp": Shape(type="int64", semantic="io.debezium.time.Timestamp", convert=millis),
}
"""of columns with at most this precision"""
_MILLIS_PRECISION = 3
_BIT_OID = 1560
_SINGLE_BIT = Shape(type="boolean", convert=_bit)
_ENUM = Shape(type="string", semantic="io.debezium.data.Enum")
# Types that people create have higher oids, and may have the name of a built-in type.
_USER_OID_MIN = 16_384


def shape(oid: int, modifier: int, types: Mapping[int, TypeInfo]) -> Shape:
    """How the values of a column look. A type that is unknown, because it was dropped since, is a text."""
    info = types.get(oid)
    if info is None:
        return _TEXT
    if info.kind == "d":
        return shape(info.base_oid, info.base_modifier, types)
    if info.item_oid:
        item = shape(info.item_oid, modifier, types)
        # A domain over an array as an item is printed as an array in quotes.
        convert = partial(parse_array, convert=item.convert, delimiter=info.delimiter)
        return Shape(type="array", semantic=item.semantic, items=item.type, convert=convert)
    if info.kind == "e":
        return _ENUM
    if oid == _BIT_OID and modifier == 1:
        return _SINGLE_BIT
    if oid >= _USER_OID_MIN:
        return _TEXT
    if 0 <= modifier <= _MILLIS_PRECISION and info.name in _MILLIS:
        return _MILLIS[info.name]
    return _SHAPES.get(info.name, _TEXT)
