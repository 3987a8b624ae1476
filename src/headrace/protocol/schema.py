"""A message class at one version, as data: which fields it has then, and how each is encoded.

This is the form in which `codec` generates code from a class, and in which the tests compare our declarations
with other definitions of the same messages.
"""

from __future__ import annotations

import types
import typing
from typing import Any

import msgspec
from msgspec import Struct

from headrace.protocol.types import SAME_AS_DEFAULT, NullableSince, Since, Tagged, Until, Wire, is_struct

FIXED_SIZES = {
    Wire.BOOL: 1,
    Wire.INT8: 1,
    Wire.INT16: 2,
    Wire.UINT16: 2,
    Wire.INT32: 4,
    Wire.UINT32: 4,
    Wire.INT64: 8,
    Wire.FLOAT64: 8,
    Wire.UUID: 16,
}


class Encoding(Struct, frozen=True, kw_only=True):
    """One of: a wire type, a struct, or an array of another encoding."""

    wire: Wire | None = None
    struct: type[Any] | None = None
    element: Encoding | None = None
    nullable: bool = False
    in_tag: bool = False
    """A nullable struct marks null with another number in a tagged field."""

    @property
    def fixed_bytes(self) -> int | None:
        return FIXED_SIZES.get(self.wire) if self.wire is not None else None


class FieldSchema(Struct, frozen=True, kw_only=True):
    name: str
    encoding: Encoding
    tag: int | None
    default: Any


_FIELDS: dict[tuple[type[Any], int], tuple[FieldSchema, ...]] = {}


def fields_at(cls: type[Any], version: int) -> tuple[FieldSchema, ...]:
    """The fields that a struct has in a version, in their order on the wire; tagged ones last, by tag."""
    if (cls, version) not in _FIELDS:
        _FIELDS[cls, version] = _fields_at(cls, version)
    return _FIELDS[cls, version]


def _fields_at(cls: type[Any], version: int) -> tuple[FieldSchema, ...]:
    present = [_field_at(field, version) for field in msgspec.structs.fields(cls)]
    plain = [field for field in present if field is not None and field.tag is None]
    tagged = [field for field in present if field is not None and field.tag is not None]
    return (*plain, *sorted(tagged, key=lambda field: field.tag or 0))


def bytes_min(encoding: Encoding, version: int, flexible: bool) -> int:
    """The fewest bytes that a value can take: it bounds the count of an array by the bytes that are left."""
    if encoding.fixed_bytes is not None:
        return encoding.fixed_bytes
    if encoding.struct is not None:
        if encoding.nullable:
            return 1
        plain = [field for field in fields_at(encoding.struct, version) if field.tag is None]
        return sum(bytes_min(field.encoding, version, flexible) for field in plain) + (1 if flexible else 0)
    if flexible:
        return 1
    return 2 if encoding.wire is Wire.STRING else 4


def _field_at(field: msgspec.structs.FieldInfo, version: int) -> FieldSchema | None:
    marks = list(getattr(field.type, "__metadata__", ()))
    first = next((mark.version for mark in marks if isinstance(mark, Since)), 0)
    last = next((mark.version for mark in marks if isinstance(mark, Until)), version)
    if not first <= version <= last:
        return None
    tagged = next((mark for mark in marks if isinstance(mark, Tagged)), None)
    is_tagged = tagged is not None and version >= (tagged.since if tagged.since is not None else first)
    null_since = next((mark.version for mark in marks if isinstance(mark, NullableSince)), 0)
    encoding = encoding_of(field.type)
    if encoding.nullable and version < null_since:
        encoding = msgspec.structs.replace(encoding, nullable=False)
    if is_tagged and encoding.struct is not None:
        encoding = msgspec.structs.replace(encoding, in_tag=True)
    default = field.default
    if tagged is not None and tagged.absent is not SAME_AS_DEFAULT:
        default = tagged.absent
    return FieldSchema(
        name=field.name,
        encoding=encoding,
        tag=tagged.tag if tagged is not None and is_tagged else None,
        default=default,
    )


def encoding_of(hint: Any) -> Encoding:
    """How a value with this annotation is encoded."""
    wire = next((mark for mark in getattr(hint, "__metadata__", ()) if isinstance(mark, Wire)), None)
    plain = hint.__origin__ if hasattr(hint, "__metadata__") else hint
    is_union = typing.get_origin(plain) in (types.UnionType, typing.Union)
    members = typing.get_args(plain) if is_union else (plain,)
    nullable = type(None) in members
    if wire is not None:
        return Encoding(wire=wire, nullable=nullable)
    kind = next(member for member in members if member is not type(None))
    if typing.get_origin(kind) is tuple:
        return Encoding(element=encoding_of(typing.get_args(kind)[0]), nullable=nullable)
    if hasattr(kind, "__metadata__"):
        inner = encoding_of(kind)
        return msgspec.structs.replace(inner, nullable=inner.nullable or nullable)
    assert is_struct(kind), f"{kind!r} has no encoding"
    return Encoding(struct=kind, nullable=nullable)
