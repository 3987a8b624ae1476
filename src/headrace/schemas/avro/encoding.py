"""A value of JSON -> Avro's binary encoding. Pure.

The branch of a union is named, as in Avro's JSON encoding (`{"string": "x"}`), or else it is the first that the value
may belong to by its outermost level. So the time is linear, whatever a client sends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from headrace.schemas.errors import DoesNotFit

_BITS = {"int": 32, "long": 64}
_SHOWN_CHARS_MAX = 80


def encode_avro(schema: AvroSchema, value: Any) -> bytes:
    """`value` as JSON is decoded. DoesNotFit if it is not one of the schema."""
    found = _Encoder(schema)
    try:
        found.write(schema.root, value, "")
    except RecursionError:
        raise DoesNotFit("the value is nested too deep", hint="send a flatter value") from None
    return bytes(found.data)


class _Encoder:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self.data = bytearray()

    def write(self, type_: Type, value: Any, path: str) -> None:
        found = self._schema.resolve(type_)
        match found:
            case Primitive():
                self._write_primitive(found.name, value, path)
            case Record():
                self._write_record(found, value, path)
            case Union():
                self._write_union(found, value, path)
            case Array():
                self._write_array(found, value, path)
            case Map():
                self._write_map(found, value, path)
            case Enum():
                if value not in found.symbols:
                    raise _misfit(path, value, f"one of {', '.join(found.symbols[:20])}")
                self._write_long(found.symbols.index(value))
            case Fixed():
                data = _bytes(value, path)
                if len(data) != found.size:
                    raise _misfit(path, value, f"{found.size} bytes")
                self.data += data

    def _write_long(self, number: int) -> None:
        rest = (number << 1) ^ (number >> 63)
        while rest > 0x7F:
            self.data.append(rest & 0x7F | 0x80)
            rest >>= 7
        self.data.append(rest)

    def _write_bytes(self, data: bytes) -> None:
        self._write_long(len(data))
        self.data += data

    def _write_primitive(self, name: str, value: Any, path: str) -> None:
        if not _FITS[name](value):
            raise _misfit(path, value, name)
        match name:
            case "boolean":
                self.data.append(value)
            case "int" | "long":
                self._write_long(int(value))
            case "float":
                try:
                    self.data += struct.pack("<f", value)
                except OverflowError:
                    raise _misfit(path, value, name) from None
            case "double":
                self.data += struct.pack("<d", value)
            case "bytes":
                self._write_bytes(_bytes(value, path))
            case "string":
                self._write_bytes(value.encode())

    def _write_record(self, record: Record, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _misfit(path, value, f"an object, because it is the record {record.name}")
        known = {each.name for each in record.fields}
        for name in value:
            if name not in known:
                raise DoesNotFit(
                    f"{path}/{name:.80}: the record {record.name} has no such field",
                    hint=f"it has {', '.join(sorted(known)[:20])}",
                )
        for field in record.fields:
            own = f"{path}/{field.name}"
            if field.name in value:
                self.write(field.type, value[field.name], own)
            elif field.default is UNSET:
                raise DoesNotFit(
                    f"{own} is missing", hint="the field has no default, so every value needs it"
                )
            else:
                self._write_default(field, own)

    def _write_default(self, field: Field, path: str) -> None:
        """The default of a union is one of its first branch, without the name of the branch."""
        type_ = self._schema.resolve(field.type)
        if isinstance(type_, Union) and type_.branches:
            self._write_long(0)
            type_ = self._schema.resolve(type_.branches[0])
        self.write(type_, field.default, path)

    def _write_union(self, union: Union, value: Any, path: str) -> None:
        branches = [self._schema.resolve(each) for each in union.branches]
        index = None
        if isinstance(value, dict) and len(value) == 1:
            ((name, inner),) = value.items()
            index = next((n for n, each in enumerate(branches) if _branch_name(each) == name), None)
        if index is not None:
            value = inner
        else:
            index = next((n for n, each in enumerate(branches) if _may_be(each, value)), None)
        if index is None:
            raise _misfit(path, value, f"one of {', '.join(map(_branch_name, branches))}"[:300])
        self._write_long(index)
        self.write(branches[index], value, path)

    def _write_array(self, array: Array, value: Any, path: str) -> None:
        if not isinstance(value, list):
            raise _misfit(path, value, "an array")
        if value:
            self._write_long(len(value))
        for number, each in enumerate(value):
            self.write(array.items, each, f"{path}/{number}")
        self.data.append(0)

    def _write_map(self, map_: Map, value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _misfit(path, value, "an object")
        if value:
            self._write_long(len(value))
        for name, each in value.items():
            self._write_bytes(name.encode())
            self.write(map_.values, each, f"{path}/{name:.80}")
        self.data.append(0)


def _is_integer(bits: int) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        # JSON has one kind of number, so clients write 7.0 for 7.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return is_number and -(1 << bits - 1) <= value < 1 << bits - 1

    return fits


def _is_float(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= 1.7976931348623157e308


_FITS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    **{name: _is_integer(bits) for name, bits in _BITS.items()},
    "float": _is_float,
    "double": _is_float,
    "bytes": lambda value: isinstance(value, str),
    "string": lambda value: isinstance(value, str),
}


def _may_be(type_: Type, value: Any) -> bool:
    """By the outermost level only."""
    match type_:
        case Primitive():
            return _FITS[type_.name](value)
        case Enum():
            return value in type_.symbols
        case Fixed():
            return isinstance(value, str) and len(value) == type_.size
        case Array():
            return isinstance(value, list)
        case Map():
            return isinstance(value, dict)
        case Record():
            if not isinstance(value, dict):
                return False
            required = {each.name for each in type_.fields if each.default is UNSET}
            return required <= value.keys() <= {each.name for each in type_.fields}
        case _:
            return False


def _branch_name(type_: Type) -> str:
    match type_:
        case Primitive() | Record() | Enum() | Fixed() | Named():
            return type_.name
        case Array():
            return "array"
        case Map():
            return "map"
        case _:
            return ""


def _bytes(value: Any, path: str) -> bytes:
    """As in Avro's JSON: a character for each byte."""
    if not isinstance(value, str):
        raise _misfit(path, value, "bytes, as a string")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise _misfit(path, value, "bytes: each character is one, so at most U+00FF") from None


def _misfit(path: str, value: Any, wanted: str) -> DoesNotFit:
    return DoesNotFit(f"{path or '/'}: {value!r:.{_SHOWN_CHARS_MAX}} is not {wanted}", hint="see the schema")
