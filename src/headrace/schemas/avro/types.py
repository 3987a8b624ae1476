"""The types of a parsed Avro schema. Names are full names; a type that is used again is a `Named`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})

Properties = Mapping[str, Any]
"""What the specification does not name: logical types, and properties of users."""


class Primitive(Struct, frozen=True):
    name: str
    properties: Properties = {}


class Array(Struct, frozen=True):
    items: Type
    properties: Properties = {}


class Map(Struct, frozen=True):
    values: Type
    properties: Properties = {}


class Union(Struct, frozen=True):
    branches: tuple[Type, ...]


class Named(Struct, frozen=True):
    """The use of a type that is defined elsewhere."""

    name: str


class Enum(Struct, frozen=True, kw_only=True):
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = {}


class Fixed(Struct, frozen=True, kw_only=True):
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = {}


class Field(Struct, frozen=True, kw_only=True):
    name: str
    type: Type
    default: Any = UNSET
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = {}


class Record(Struct, frozen=True, kw_only=True):
    name: str
    fields: tuple[Field, ...]
    is_error: bool = False
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = {}


Definition = Enum | Fixed | Record
Type = Primitive | Array | Map | Union | Named | Definition


class AvroSchema(Struct, frozen=True):
    root: Type
    names: Mapping[str, Definition]
    """The named types, those of the references included."""

    def resolve(self, type_: Type) -> Primitive | Array | Map | Union | Definition:
        return self.names[type_.name] if isinstance(type_, Named) else type_


def unqualified(name: str) -> str:
    return name.rpartition(".")[2]
