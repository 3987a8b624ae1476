"""Fields of schemas of each type, and bounds for schemas that were made to take long."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.catalog.fields import FIELDS_MAX, fields_of
from headrace.gateway.catalog.model import Field
from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.parsing import Referenced, parse


def fields(value: Any, type_: SchemaType = SchemaType.AVRO) -> dict[str, Field]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {each.path: each for each in fields_of(parse(Definition(text=text, type=type_)))}


def test_an_avro_record_shows_types_docs_and_defaults() -> None:
    found = fields(
        {
            "type": "record",
            "name": "Order",
            "fields": [
                {"name": "id", "type": "long", "doc": "of the shop"},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "note", "type": ["null", "string"], "default": None},
                {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
                {
                    "name": "price",
                    "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
                },
                {"name": "hash", "type": {"type": "fixed", "name": "Md5", "size": 16}},
            ],
        }
    )
    assert found["id"] == Field(path="id", type="long", required=True, doc="of the shop")
    assert found["at"].type == "long (timestamp-millis)"
    assert found["note"] == Field(path="note", type="null | string", default="null")
    assert found["color"].type == "enum Color: RED, BLUE"
    assert found["price"].type == "bytes (decimal(9, 2))"
    assert found["hash"].type == "fixed Md5 of 16 bytes"


def test_nested_avro_records_are_fields_with_paths_and_recursion_ends() -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [
            {"name": "children", "type": {"type": "array", "items": "Node"}},
            {
                "name": "tags",
                "type": {
                    "type": "map",
                    "values": {"type": "record", "name": "Tag", "fields": [{"name": "at", "type": "int"}]},
                },
            },
        ],
    }
    assert {path: each.type for path, each in fields(node).items()} == {
        "children": "array of Node",
        "tags": "map of Tag",
        "tags{}.at": "int",
    }


def test_a_schema_without_fields_is_one_value() -> None:
    assert fields('"string"') == {"": Field(path="", type="string", required=True)}
    assert fields({"type": "integer"}, SchemaType.JSON)[""].type == "integer"


def test_a_json_schema_shows_properties_through_references() -> None:
    found = fields(
        {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {"type": "integer", "description": "of the shop"},
                "kind": {"enum": ["a", "b"], "default": "a"},
                "home": {"$ref": "#/definitions/address"},
                "lines": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"at": {"type": "string", "format": "date"}}},
                },
            },
            "definitions": {
                "address": {"title": "Address", "type": "object", "properties": {"city": {"type": "string"}}}
            },
        },
        SchemaType.JSON,
    )
    assert found["id"] == Field(path="id", type="integer", required=True, doc="of the shop")
    assert found["kind"] == Field(path="kind", type="enum: a, b", default='"a"')
    assert (found["home"].type, found["home.city"].type) == ("object Address", "string")
    assert (found["lines"].type, found["lines[].at"].type) == ("array of object", "string (date)")


def test_a_protobuf_message_shows_numbers_maps_and_imports() -> None:
    money = Definition(
        text='syntax = "proto3"; package shop; message Money { int64 cents = 1; }', type=SchemaType.PROTOBUF
    )
    order = Definition(
        text='syntax = "proto3"; package shop; import "money.proto"; message Order { int64 id = 1;'
        " repeated Line lines = 2; map<string, Money> prices = 3; message Line { string name = 1; } }",
        type=SchemaType.PROTOBUF,
    )
    parsed = parse(order, [Referenced("money.proto", parse(money))])
    assert {each.path: each.type for each in fields_of(parsed)} == {
        "id": "int64 = 1",
        "lines": "repeated shop.Order.Line = 2",
        "lines[].name": "string = 1",
        "prices": "map of string to shop.Money",
        "prices{}.cents": "int64 = 1",
    }


def test_a_schema_that_refers_to_itself_many_times_ends() -> None:
    """Each level would have fifty times as many parts."""
    doubled = {"anyOf": [{"$ref": "#"} for _ in range(50)], "title": "x"}
    assert len(fields(doubled, SchemaType.JSON)) == 1
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(50)}}
    assert len(fields(wide, SchemaType.JSON)) == FIELDS_MAX
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{n}", "type": "int"} for n in range(3000)],
    }
    assert len(fields(record)) == FIELDS_MAX


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    properties=st.dictionaries(
        st.text(max_size=8), st.just({}) | st.builds(lambda v: {"default": v}, _VALUES)
    )
)
def test_every_property_is_a_field(properties: dict[str, Any]) -> None:
    found = fields_of(
        parse(Definition(text=json.dumps({"properties": properties}), type=SchemaType.JSON), strict=False)
    )
    assert sorted(each.path for each in found) == sorted(properties)
