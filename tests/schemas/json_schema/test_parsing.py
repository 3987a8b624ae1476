"""JSON text -> a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_schema.parsing import parse_json_schema

ADDRESS = parse_json_schema('{"type": "object", "properties": {"city": {"type": "string"}}}')


@pytest.mark.parametrize("draft", ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema"])  # fmt: skip
def test_each_draft_is_known(draft: str) -> None:
    schema = parse_json_schema(json.dumps({"$schema": draft, "type": "object"}))
    assert schema.ignores_siblings_of_ref == ("draft-0" in draft)


def test_a_boolean_is_a_schema() -> None:
    assert parse_json_schema("true").contents is True


@pytest.mark.parametrize(
    "reference", ["#/definitions/a", "#item", "address.json", "address.json#/properties/city"]
)
def test_references_within_and_between_schemas_resolve(reference: str) -> None:
    text = json.dumps(
        {"definitions": {"a": {"$id": "#item", "type": "string"}}, "items": {"$ref": reference}}
    )
    assert parse_json_schema(text, referenced=[("address.json", ADDRESS)]).contents["items"] == {
        "$ref": reference
    }


def test_references_of_references_resolve() -> None:
    person = parse_json_schema('{"items": {"$ref": "address.json"}}', referenced=[("address.json", ADDRESS)])
    schema = parse_json_schema('{"items": {"$ref": "person.json"}}', referenced=[("person.json", person)])
    assert [name for name, _ in schema.resources] == ["address.json", "person.json"]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (17, "an object or a boolean"),
        ([], "an object or a boolean"),
        ({"type": "strnig"}, "/type: 'strnig'"),
        ({"properties": []}, "/properties"),
        ({"properties": {"a": {"minLength": -1}}}, "/properties/a/minLength"),
        ({"$schema": 7}, "7 is not of type 'string'"),
        ({"items": {"$ref": "#/$defs/missing"}}, "'#/\\$defs/missing' does not resolve"),
        ({"items": {"$ref": "http://example.org/other.json"}}, "does not resolve"),
        ({"$ref": "other.json"}, "does not resolve"),
    ],
)
def test_an_invalid_schema_is_rejected_with_the_place_and_the_problem(value: Any, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem) as raised:
        parse_json_schema(json.dumps(value))
    assert raised.value.hint


def test_an_unknown_dialect_is_read_as_draft_7() -> None:
    """So does Confluent's registry, and its schemas are read from the topic."""
    schema = parse_json_schema(
        '{"$schema": "http://example.org/mine", "prefixItems": [], "items": {"$ref": "#"}}'
    )
    assert schema.keywords(schema.contents).keys() == {"items"}
    assert schema.ignores_siblings_of_ref


def test_keywords_that_the_dialect_does_not_know_are_left_out() -> None:
    contents = '{"prefixItems": [true], "type": "array", "then": true}'
    schema = parse_json_schema(contents)
    assert schema.keywords(schema.contents) == {"type": "array", "then": True}
    newer = parse_json_schema(contents[:-1] + ', "$schema": "https://json-schema.org/draft/2020-12/schema"}')
    assert "prefixItems" in newer.keywords(newer.contents)
