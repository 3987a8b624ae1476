"""A JSON Schema as a conjunction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.schemas.json_schema.parsing import parse_json_schema
from headrace.schemas.json_schema.view import Part, UnsupportedPattern, View, matches


def view(value: Any) -> View:
    schema = parse_json_schema(json.dumps(value))
    return View((Part(schema.contents, schema.resolver, schema),))


def values(node: tuple[Part, ...]) -> list[Any]:
    return [part.value for part in node]


def test_all_of_and_references_are_one_conjunction() -> None:
    found = view(
        {
            "allOf": [{"type": ["string", "null"]}, {"$ref": "#/definitions/a"}],
            "definitions": {"a": {"type": "string", "minLength": 2}},
            "minLength": 1,
        }
    )
    assert found.types() == {"string"}
    assert found.greatest("minLength") == 2


def test_a_number_may_be_an_integer() -> None:
    assert view({"type": "number"}).types() == {"number", "integer"}
    assert view({"allOf": [{"type": "number"}, {"type": "integer"}]}).types() == {"integer"}


def test_a_reference_to_itself_ends() -> None:
    assert view({"$ref": "#"}).types() == view({}).types()


@pytest.mark.parametrize("value", [False, {"not": {}}, {"not": True}, {"allOf": [True, False]}])
def test_some_schemas_accept_nothing(value: Any) -> None:
    assert view(value).is_never


def test_a_property_meets_its_schema_and_patterns_or_the_additional_schema() -> None:
    found = view(
        {
            "properties": {"a": {"type": "null"}},
            "patternProperties": {"^a": {"type": "string"}},
            "additionalProperties": False,
        }
    )
    assert values(found.property_node("a")) == [{"type": "null"}, {"type": "string"}]
    assert values(found.property_node("ab")) == [{"type": "string"}]
    assert values(found.property_node("b")) == [False]


def test_items_of_a_tuple_have_schemas_of_their_own() -> None:
    old = view({"items": [{"type": "null"}], "additionalItems": False})
    new = view(
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "prefixItems": [{"type": "null"}],
            "items": False,
        }
    )
    for found in (old, new):
        assert found.prefix_length() == 1
        assert [values(found.item_node(index)) for index in (0, 1)] == [[{"type": "null"}], [False]]
    assert values(view({"items": {"type": "null"}}).item_node(7)) == [{"type": "null"}]


def test_siblings_of_a_reference_count_since_2019() -> None:
    value = {"$ref": "#/definitions/a", "type": "string", "definitions": {"a": {}}}
    assert view(value).types() != {"string"}
    assert view(value | {"$schema": "https://json-schema.org/draft/2019-09/schema"}).types() == {"string"}


def test_patterns_match_anywhere_and_in_linear_time() -> None:
    assert matches("b", "abc")
    assert not matches("^(a+)+$", "a" * 10_000 + "b")
    with pytest.raises(UnsupportedPattern):
        matches("(?=a)", "a")
