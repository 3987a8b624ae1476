"""A registered schema with all schemas that it refers to, so that it can be parsed without a registry. Values only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.schemas.definition import SchemaType

if TYPE_CHECKING:
    from headrace.schemas.avro.types import AvroSchema
    from headrace.schemas.json_schema.parsing import JsonSchema
    from headrace.schemas.protobuf.parsing import ProtobufSchema


class SchemaText(Struct, frozen=True, kw_only=True):
    text: str
    type: SchemaType = SchemaType.AVRO
    referenced: tuple[Referenced, ...] = ()

    def avro(self) -> AvroSchema:
        from headrace.schemas.avro.parsing import parse_avro

        return parse_avro(
            self.text, referenced=[each.schema.avro() for each in self.referenced], strict=False
        )

    def json_schema(self) -> JsonSchema:
        from headrace.schemas.json_schema.parsing import parse_json_schema

        pairs = [(each.name, each.schema.json_schema()) for each in self.referenced]
        return parse_json_schema(self.text, referenced=pairs)

    def protobuf(self) -> ProtobufSchema:
        from headrace.schemas.protobuf.parsing import parse_protobuf

        pairs = [(each.name, each.schema.protobuf()) for each in self.referenced]
        return parse_protobuf(self.text, referenced=pairs)


class Referenced(Struct, frozen=True, kw_only=True):
    """`name` is how the referring schema mentions it."""

    name: str
    schema: SchemaText


class RegisteredSchema(Struct, frozen=True, kw_only=True):
    id: int
    schema: SchemaText
    subject: str | None = None
    """None if it was requested by its id."""
    version: int | None = None
