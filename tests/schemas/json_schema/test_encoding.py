from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.schemas.errors import DoesNotFit
from headrace.schemas.json_schema.encoding import JsonSchemaEncoder
from headrace.schemas.json_schema.parsing import parse_json_schema

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"


def encoder(schema: Any) -> JsonSchemaEncoder:
    return JsonSchemaEncoder(parse_json_schema(json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "valid", "invalid", "problem"),
    [
        (
            {"type": "object", "properties": {"a": {"type": "integer"}}},
            {"a": 1},
            {"a": "x"},
            "/a: 'x' is not",
        ),
        (
            {"additionalProperties": False, "patternProperties": {"^a": {}}},
            {"ab": 1},
            {"b": 1},
            "'b' is not exp",
        ),
        (
            {"additionalProperties": {"type": "null"}, "properties": {"a": {}}},
            {"a": 1, "b": None},
            {"b": 1},
            "/b",
        ),
        ({"pattern": "^a+$"}, "aa", "b", "does not match"),
        ({"uniqueItems": True}, [1, "1", [1]], [1.0, 1], "equal items"),
        (
            {"uniqueItems": True},
            [{"a": 1}, {"a": 2}],
            [{"a": [1.0], "b": 2}, {"b": 2, "a": [1]}],
            "equal items",
        ),
        (
            {"$schema": DRAFT_2020, "properties": {"a": {}}, "unevaluatedProperties": False},
            {"a": 1},
            {"b": 1},
            "nevaluated",
        ),
    ],
)
def test_a_value_is_checked(schema: Any, valid: Any, invalid: Any, problem: str) -> None:
    found = encoder(schema)
    assert json.loads(found.encode(valid)) == valid
    with pytest.raises(DoesNotFit, match=problem):
        found.encode(invalid)


def test_a_pattern_that_takes_other_libraries_years_is_checked() -> None:
    for schema in (
        {"pattern": "^(a+)+$"},
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
    ):
        text = "a" * 50_000 + "b"
        with pytest.raises(DoesNotFit):
            encoder(schema).encode(text if "pattern" in schema else {text: 1})


def test_a_schema_that_doubles_the_work_at_each_level_is_bounded() -> None:
    step = {"properties": {"next": {"$ref": "#"}}, "required": ["next"]}
    value: Any = 7
    for _ in range(60):
        value = {"next": value}
    with pytest.raises(DoesNotFit, match="takes too long"):
        encoder({"type": "object", "anyOf": [step, step]}).encode(value)


def test_what_cannot_be_checked_in_linear_time_is_an_error() -> None:
    with pytest.raises(DoesNotFit, match="pattern that is not checked"):
        encoder({"pattern": "(?=a)b"}).encode("x")
    unevaluated = {
        "$schema": DRAFT_2020,
        "unevaluatedProperties": False,
        "allOf": [{"patternProperties": {"a": {}}}],
    }
    with pytest.raises(DoesNotFit, match="patternProperties"):
        encoder(unevaluated).encode({"a": 1})


def test_a_value_that_is_nested_too_deep_is_rejected() -> None:
    value: Any = 1
    for _ in range(900):
        value = [value]
    with pytest.raises(DoesNotFit, match="takes too long"):
        encoder({"items": {"$ref": "#"}}).encode(value)
