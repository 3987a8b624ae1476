"""Whether a reader's JSON Schema accepts every value that a writer's schema accepts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schemas.json_schema.compatibility import REASONS_MAX, incompatibilities_of_json_schema
from headrace.schemas.json_schema.parsing import JsonSchema, parse_json_schema
from tests.schemas.json_schema.pairs import Pairs

VALUES_OF_A_PAIR = 40
NEW = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
OLD = {"$schema": "http://json-schema.org/draft-04/schema#"}


def found(reader: Any, writer: Any, **referenced: JsonSchema) -> list[tuple[str, str]]:
    pairs = list(referenced.items())
    read, written = (parse_json_schema(json.dumps(each), referenced=pairs) for each in (reader, writer))
    return [(each.kind, each.path) for each in incompatibilities_of_json_schema(read, written)]


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def open_(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


INT, NUMBER, STRING, NULL = ({"type": each} for each in ("integer", "number", "string", "null"))
LIST = {"properties": {"next": {"$ref": "#"}, "value": INT}, "additionalProperties": False}

COMPATIBLE: list[tuple[str, Any, Any]] = [
    ("anything", True, STRING),
    ("nothing", STRING, False),
    ("a wider type", NUMBER, INT),
    ("one more type", {"type": ["string", "null"]}, STRING),
    ("an annotation", STRING | {"title": "a", "format": "email", "default": ""}, STRING),
    ("an optional property, in a closed model", closed(a=INT, b=INT), closed(a=INT)),
    ("an optional property of any value, in an open model", open_(a=True), open_()),
    ("a removed property, in an open model", open_(), open_(a=INT)),
    ("a property that is not required any more", closed(a=INT), closed(a=INT) | {"required": ["a"]}),
    ("an opened model", open_(a=INT), closed(a=INT)),
    ("a property of another type that a closed writer does not have", open_(b=INT), closed(a=INT)),
    ("a schema for other properties", open_(a=INT) | {"additionalProperties": INT}, closed(a=INT, b=INT)),
    ("a pattern that covers a property", closed() | {"patternProperties": {"^a": NUMBER}}, closed(ab=INT)),
    ("the same pattern with a wider type", {"patternProperties": {"^a": NUMBER}}, {"patternProperties": {"^a": INT}}),
    ("names of a closed model", {"propertyNames": {"pattern": "^a"}}, closed(a=INT, ab=INT)),
    ("a value more", {"enum": ["a", "b"]}, {"enum": ["a"]}),
    ("values of a type", STRING, {"enum": ["a", "b"]}),
    ("a constant of several", {"enum": [1, 2]}, {"const": 1}),
    ("a lower minimum", {"minimum": 1}, {"minimum": 2}),
    ("an exclusive minimum below", {"exclusiveMinimum": 1}, {"minimum": 2}),
    ("a minimum at an exclusive one", {"minimum": 1}, {"exclusiveMinimum": 1}),
    ("bounds of numbers for strings", STRING | {"minimum": 1}, STRING),
    ("a factor of the step", {"multipleOf": 2}, {"multipleOf": 6}),
    ("integers are multiples of one", {"multipleOf": 1}, INT),
    ("a shorter minimum length", {"minLength": 1}, {"minLength": 2}),
    ("more items", {"maxItems": 3}, {"maxItems": 2}),
    ("items of a wider type", {"type": "array", "items": NUMBER}, {"type": "array", "items": INT}),
    ("a tuple is read as a list", {"type": "array", "items": NUMBER},
     {"type": "array", "items": [INT, NUMBER], "additionalItems": False}),
    ("one more branch", {"anyOf": [STRING, INT]}, {"anyOf": [STRING]}),
    ("a value becomes a branch", {"oneOf": [STRING, NULL]}, STRING),
    ("branches for each type", {"anyOf": [STRING, NULL]}, {"type": ["string", "null"]}),
    ("one branch for all", NUMBER, {"anyOf": [INT, NUMBER]}),
    ("one condition less", {"allOf": [STRING]}, {"allOf": [STRING, {"minLength": 1}]}),
    ("a smaller negation", {"not": {"enum": [1]}}, {"not": {"enum": [1, 2]}}),
    ("a negation of another type", {"not": STRING}, INT),
    ("the same condition", {"if": STRING, "then": {"minLength": 1}}, {"if": STRING, "then": {"minLength": 1}}),
    ("a recursive schema", LIST | {"title": "list"}, LIST),
    ("draft 4 has exclusive as a flag", OLD | {"minimum": 1},
     OLD | {"minimum": 1, "exclusiveMinimum": True}),
    ("prefixes since 2020", NEW | {"prefixItems": [NUMBER]}, NEW | {"prefixItems": [INT]}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer"), [each[1:] for each in COMPATIBLE], ids=[each[0] for each in COMPATIBLE]
)
def test_compatible(reader: Any, writer: Any) -> None:
    assert found(reader, writer) == []


INCOMPATIBLE: list[tuple[str, Any, Any, str]] = [
    ("nothing is accepted", False, STRING, "NOTHING_ACCEPTED"),
    ("a narrower type", INT, NUMBER, "TYPE_NARROWED"),
    ("another type", STRING, INT, "TYPE_NARROWED"),
    ("a property with a type, in an open model", open_(a=INT), open_(), "TYPE_NARROWED"),
    ("a removed property, in a closed model", closed(), closed(a=INT), "NOTHING_ACCEPTED"),
    ("a closed model", closed(a=INT), open_(a=INT), "NOTHING_ACCEPTED"),
    ("a narrowed property", closed(a=INT), closed(a=NUMBER), "TYPE_NARROWED"),
    ("a required property", closed(a=INT) | {"required": ["a"]}, closed(a=INT), "REQUIRED_ATTRIBUTE_ADDED"),
    ("a required property with a default", open_(a={"default": 1}) | {"required": ["a"]}, open_(),
     "REQUIRED_ATTRIBUTE_ADDED"),
    ("a pattern", open_() | {"patternProperties": {"^a": INT}}, open_(), "TYPE_NARROWED"),
    ("names", {"type": "object", "propertyNames": {"pattern": "^a"}}, open_(a=INT), "PROPERTY_NAMES_CHANGED"),
    ("a value less", {"enum": ["a"]}, {"enum": ["a", "b"]}, "ENUM_ARRAY_NARROWED"),
    ("listed values", {"enum": ["a"]}, STRING, "ENUM_ARRAY_CHANGED"),
    ("a higher minimum", {"minimum": 2}, {"minimum": 1}, "MINIMUM_ADDED"),
    ("an exclusive minimum at it", {"exclusiveMinimum": 1}, {"minimum": 1}, "MINIMUM_ADDED"),
    ("a lower maximum", {"maximum": 1}, INT, "MAXIMUM_ADDED"),
    ("another step", {"multipleOf": 4}, {"multipleOf": 6}, "MULTIPLE_OF_CHANGED"),
    ("a shorter maximum length", {"maxLength": 1}, {"maxLength": 2}, "MAXLENGTH_ADDED"),
    ("a longer minimum length", {"minLength": 1}, STRING, "MINLENGTH_ADDED"),
    ("another pattern of a string", {"pattern": "a"}, {"pattern": "b"}, "PATTERN_CHANGED"),
    ("unique items", {"uniqueItems": True}, {"type": "array"}, "UNIQUE_ITEMS_ADDED"),
    ("a closed tuple", {"type": "array", "items": [INT], "additionalItems": False}, {"type": "array", "items": [INT]},
     "NOTHING_ACCEPTED"),
    ("a branch less", {"anyOf": [STRING]}, {"anyOf": [STRING, INT]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("no branch", {"anyOf": [STRING, NULL]}, {"anyOf": [STRING, INT]}, "COMBINED_TYPE_SUBSCHEMAS_CHANGED"),
    ("a negation", {"not": STRING}, {"type": ["string", "null"]}, "NOT_TYPE_NARROWED"),
    ("a condition", {"if": STRING, "then": {"minLength": 1}}, STRING, "IF_CHANGED"),
    ("what is unevaluated depends on the rest", NEW | open_(a=INT) | {"unevaluatedProperties": False},
     NEW | open_(a=INT, b=INT) | {"unevaluatedProperties": False}, "UNEVALUATEDPROPERTIES_CHANGED"),
    ("a keyword with a reference may differ behind it",
     {"type": "object", "dependencies": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {"required": ["b"]}}},
     {"type": "object", "dependencies": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {}}},
     "DEPENDENCIES_CHANGED"),
    ("a pattern with look-around", closed() | {"patternProperties": {"(?=a)": INT}}, closed(a=INT),
     "PATTERN_NOT_COMPARED"),
    ("a recursive schema differs within", LIST, {**LIST, "properties": {"next": {"$ref": "#"}, "value": NUMBER}},
     "TYPE_NARROWED"),
    ("draft 7 does not know prefixes", NEW | {"prefixItems": [INT]}, {"prefixItems": [INT]}, "TYPE_NARROWED"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer", "kind"), [each[1:] for each in INCOMPATIBLE], ids=[each[0] for each in INCOMPATIBLE]
)
def test_incompatible(reader: Any, writer: Any, kind: str) -> None:
    assert kind in [reason for reason, _ in found(reader, writer)]


def test_schemas_are_compared_through_their_references() -> None:
    address = parse_json_schema(
        '{"type": "object", "properties": {"zip": {"type": "string"}}, "additionalProperties": false}'
    )
    referring = {"properties": {"home": {"$ref": "address"}}}
    inline = {"properties": {"home": closed(zip=STRING)}}
    assert found(referring, inline, address=address) == []
    assert found(inline, referring, address=address) == []
    assert found({"properties": {"home": closed(zip=INT)}}, referring, address=address) != []


def test_a_place_is_named() -> None:
    assert found(closed(a=closed(b=INT)), closed(a=closed(b=STRING))) == [
        ("TYPE_NARROWED", "/properties/a/properties/b/type")
    ]


def test_comparing_and_its_reasons_are_bounded() -> None:
    def nested(leaf: str, depth: int) -> Any:
        if not depth:
            return {"const": leaf}
        return {"anyOf": [open_(**{f"p{n}": nested(f"{leaf}{n}", depth - 1)}) for n in range(8)]}

    assert 0 < len(found(nested("a", 3), nested("b", 3))) <= REASONS_MAX


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_a_validator_accepts_with_the_reader_what_it_accepts_with_the_writer(seed: int) -> None:
    pairs = Pairs(seed)
    writer = pairs.schema()
    reader = pairs.evolved(writer)
    is_compatible = not found(reader, writer)
    read, written = jsonschema.Draft7Validator(reader), jsonschema.Draft7Validator(writer)
    values = [pairs.value() for _ in range(VALUES_OF_A_PAIR)]
    rejected = [each for each in values if written.is_valid(each) and not read.is_valid(each)]
    assert not (is_compatible and rejected), (writer, reader, rejected)
