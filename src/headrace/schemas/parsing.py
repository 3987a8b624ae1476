"""A schema of any type: its text -> what identifies it, and what can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from headrace.schemas.avro.canonical import canonical_value
from headrace.schemas.avro.compatibility import incompatibilities_of_avro
from headrace.schemas.avro.parsing import parse_avro
from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.incompatibility import Incompatibility
from headrace.schemas.json_schema.compatibility import incompatibilities_of_json_schema
from headrace.schemas.json_schema.parsing import parse_json_schema
from headrace.schemas.json_text import canonical, decode, encode
from headrace.schemas.protobuf.compatibility import incompatibilities_of_protobuf
from headrace.schemas.protobuf.parsing import canonical_bytes, parse_protobuf
from headrace.schemas.protobuf.printing import print_proto


class Parsed(Struct, frozen=True, kw_only=True, eq=False):
    """`text` is as it was written, without white space where that has no meaning. Schemas with the same `canonical`
    form are the same one; `normalized` is a text for it that does not depend on how it was written."""

    type: SchemaType
    text: str
    normalized: str
    canonical: bytes
    schema: Any
    """As the package of its type has it."""


class Referenced(Struct, frozen=True):
    """`name` is how the referring schema mentions it."""

    name: str
    parsed: Parsed


def parse(definition: Definition, referenced: Sequence[Referenced] = (), *, strict: bool = True) -> Parsed:
    """InvalidSchema if the text is not valid. Without `strict`, what other registries have accepted is read too."""
    for each in referenced:
        if each.parsed.type is not definition.type:
            raise InvalidSchema(
                f"the reference {each.name} is {each.parsed.type}, and the schema {definition.type}",
                hint="refer to schemas of the same type",
            )
    match definition.type:
        case SchemaType.AVRO:
            return _parse_avro(definition.text, referenced, strict)
        case SchemaType.JSON:
            return _parse_json_schema(definition.text, referenced)
        case SchemaType.PROTOBUF:
            return _parse_protobuf(definition.text, referenced)


def incompatibilities(reader: Parsed, writer: Parsed) -> list[Incompatibility]:
    """Why data of the writer's schema can't be read with the reader's schema; empty if it can."""
    if reader.type is not writer.type:
        detail = f"the reader's schema is {reader.type}, and the writer's {writer.type}"
        return [Incompatibility(kind="SCHEMA_TYPE_MISMATCH", path="/", detail=detail)]
    try:
        return _COMPARE[reader.type](reader.schema, writer.schema)
    except RecursionError:
        detail = "types refer to each other in a chain that is too long to compare"
        return [Incompatibility(kind="TOO_COMPLEX", path="/", detail=detail)]


_COMPARE: dict[SchemaType, Callable[[Any, Any], list[Incompatibility]]] = {
    SchemaType.AVRO: incompatibilities_of_avro,
    SchemaType.JSON: incompatibilities_of_json_schema,
    SchemaType.PROTOBUF: incompatibilities_of_protobuf,
}


def _parse_avro(text: str, referenced: Sequence[Referenced], strict: bool) -> Parsed:
    schema = parse_avro(text, referenced=[each.parsed.schema for each in referenced], strict=strict)
    value = canonical_value(schema)
    return Parsed(
        type=SchemaType.AVRO,
        text=encode(decode(text)),
        normalized=encode(value),
        canonical=canonical(value),
        schema=schema,
    )


def _parse_json_schema(text: str, referenced: Sequence[Referenced]) -> Parsed:
    pairs = [(each.name, each.parsed.schema) for each in referenced]
    schema = parse_json_schema(text, referenced=pairs)
    form = canonical(schema.contents)
    return Parsed(
        type=SchemaType.JSON,
        text=encode(schema.contents),
        normalized=form.decode(),
        canonical=form,
        schema=schema,
    )


def _parse_protobuf(text: str, referenced: Sequence[Referenced]) -> Parsed:
    pairs = [(each.name, each.parsed.schema) for each in referenced]
    schema = parse_protobuf(text, referenced=pairs)
    return Parsed(
        type=SchemaType.PROTOBUF,
        text=schema.text,
        normalized=print_proto(schema.file),
        canonical=canonical_bytes(schema.file),
        schema=schema,
    )
