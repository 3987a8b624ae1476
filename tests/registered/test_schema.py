"""Registered schemas, parsed without a registry."""

from __future__ import annotations

import json

import msgspec

from headrace.registered.schema import Referenced, RegisteredSchema, SchemaText
from headrace.schemas.definition import SchemaType


def test_schema_is_parsed_with_those_that_it_refers_to() -> None:
    item = SchemaText(text='syntax = "proto3"; message Item { string name = 1; }', type=SchemaType.PROTOBUF)
    order = SchemaText(
        text='syntax = "proto3"; import "item.proto"; message Order { Item item = 1; }',
        type=SchemaType.PROTOBUF,
        referenced=(Referenced(name="item.proto", schema=item),),
    )
    assert [each.name for each in order.protobuf().imported] == ["item.proto"]
    to = SchemaText(text='{"type": "string"}', type=SchemaType.JSON)
    document = SchemaText(
        text=json.dumps({"properties": {"to": {"$ref": "to.json"}}}),
        type=SchemaType.JSON,
        referenced=(Referenced(name="to.json", schema=to),),
    )
    assert [name for name, _ in document.json_schema().resources] == ["to.json"]


def test_schema_survives_the_options_of_a_source() -> None:
    text = SchemaText(text='"long"', referenced=(Referenced(name="a", schema=SchemaText(text='"int"')),))
    schema = RegisteredSchema(id=1, subject="a-value", version=2, schema=text)
    assert msgspec.json.decode(msgspec.json.encode(schema), type=RegisteredSchema) == schema
