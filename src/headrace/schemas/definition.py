"""A schema as it is written: text, type and references. Values only."""

from __future__ import annotations

import enum

from msgspec import Struct


class SchemaType(enum.StrEnum):
    """The names are those of the registry's API."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Reference(Struct, frozen=True):
    """A schema that another one uses. `name` is how the text mentions it: a type's full name in Avro, a URI in JSON
    Schema, the path of an import in Protobuf."""

    name: str
    subject: str
    version: int


class Definition(Struct, frozen=True, kw_only=True):
    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
