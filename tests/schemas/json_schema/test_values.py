"""Whether a schema accepts a value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.schemas.json_schema.parsing import parse_json_schema
from headrace.schemas.json_schema.values import accepts_value
from headrace.schemas.json_schema.view import Part


def accepts(schema: Any, value: Any, *, is_plain: bool = False, in_doubt: bool = False) -> bool:
    parsed = parse_json_schema(json.dumps(schema))
    part = Part(parsed.contents, parsed.resolver, parsed, is_plain=is_plain)
    return accepts_value(part, value, in_doubt=in_doubt)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "integer"}, 1, True),
        ({"type": "integer"}, "1", False),
        ({"pattern": "^a"}, "ab", True),
        ({"pattern": "^a"}, "ba", False),
        ({"pattern": "^a"}, 1, True),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": None, "b": 1}, True),
        ({"patternProperties": {"^a": {"type": "null"}}}, {"ab": 1}, False),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"type": "null"}}}, 1, False),
    ],
)
def test_a_value_is_accepted_as_by_the_validator(schema: Any, value: Any, expected: bool) -> None:
    assert accepts(schema, value) == expected


def test_a_pattern_that_would_take_forever_is_matched_in_linear_time() -> None:
    assert not accepts({"pattern": "^(a+)+$"}, "a" * 10_000 + "b")


def test_a_plain_part_is_without_its_combinators() -> None:
    assert accepts({"type": "integer", "not": {}}, 1, is_plain=True)


def test_where_the_validator_fails_the_caller_decides() -> None:
    schema = {"items": True, "additionalItems": False}
    assert accepts(schema, [1], in_doubt=True)
    assert not accepts(schema, [1], in_doubt=False)
