"""JSON Schemas as types of columns, and values in them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.source.registered.json_columns import JsonColumns
from headrace.registered.errors import BadRecord
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType

MANY = {
    "properties": {
        "text": {"type": "string"},
        "whole": {"type": ["integer", "null"]},
        "number": {"type": "number"},
        "yes": {"type": "boolean"},
        "at": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "other": {"type": ["string", "integer"]},
        "none": {"type": "null"},
    }
}


def columns(schema: Any) -> JsonColumns:
    return JsonColumns(SchemaText(text=json.dumps(schema), type=SchemaType.JSON).json_schema())


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, pa.int64()),
        ({"type": ["null", "number"]}, pa.float64()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, pa.bool_()),
        ({"oneOf": [{"type": "boolean"}, {"type": "integer"}]}, pa.string()),
        (
            {"type": "object", "properties": {"a": {}}, "oneOf": [{"required": ["a"]}, {}]},
            pa.struct([("a", pa.string())]),
        ),
        ({"type": "object"}, pa.map_(pa.string(), pa.string())),
        ({"type": "array", "items": [{"type": "integer"}]}, pa.list_(pa.string())),
        (True, pa.string()),
    ],
)
def test_type_has_its_column(schema: Any, kind: pa.DataType) -> None:
    assert columns(schema).type == kind


def test_references_are_followed_and_a_type_within_itself_is_json() -> None:
    tree = {
        "$ref": "#/definitions/Tree",
        "definitions": {
            "Tree": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/definitions/Tree"}},
            },
            "Loop": {"$ref": "#/definitions/Loop"},
        },
    }
    found = columns(tree)
    assert found.type == pa.struct([("n", pa.int64()), ("next", pa.string())])
    assert found.convert({"n": 1, "next": {"n": 2}}) == {"n": 1, "next": '{"n":2}'}
    assert columns({**tree, "$ref": "#/definitions/Loop"}).type == pa.string()


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("whole", 1.0, 1),
        ("whole", None, None),
        ("number", 2, 2.0),
        ("at", "2026-11-15T11:30:00+01:00", datetime(2026, 11, 15, 10, 30, tzinfo=UTC)),
        ("at", "2026-11-15T10:30:00", datetime(2026, 11, 15, 10, 30, tzinfo=UTC)),
        ("day", "2026-11-15", date(2026, 11, 15)),
        ("raw", "AP8=", b"\0\xff"),
        ("map", {"a": True, "b": None}, {"a": True, "b": None}),
        ("other", {"a": 1}, '{"a":1}'),
    ],
)
def test_value_has_the_type_of_its_column(name: str, given: Any, value: Any) -> None:
    assert columns(MANY).convert({name: given, "more": 1}).get(name) == value


@pytest.mark.parametrize(
    ("name", "given", "problem"),
    [
        ("text", 1, "text: 1 is not a string"),
        ("whole", 1.5, "whole: 1.5 is not an integer"),
        ("whole", True, "whole: true is not an integer"),
        ("whole", 2**63, "is not an integer of 64 bits"),
        ("number", "1", 'number: "1" is not a number'),
        ("yes", 0, "yes: 0 is not a boolean"),
        ("at", "0001-01-01T00:00:00+10:00", "is not a date-time"),
        ("day", "2026-13-01", "is not a date"),
        ("raw", "?", "is not base64"),
        ("list", {"a": 1}, "is not an array"),
        ("map", [], "is not an object"),
        ("none", "x" * 100, "…"),
    ],
)
def test_value_of_another_type_is_a_problem_that_names_it(name: str, given: Any, problem: str) -> None:
    with pytest.raises(BadRecord) as raised:
        columns(MANY).convert({name: given})
    assert problem in str(raised.value)


@given(
    st.dictionaries(
        st.sampled_from(sorted(MANY["properties"])),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=1), inner, max_size=2)
            ),
        ),
    )
)
def test_any_document_is_a_row_or_a_bad_record(document: dict[str, Any]) -> None:
    found = columns(MANY)
    try:
        row = found.convert(document)
    except BadRecord:
        return
    (kept,) = pa.array([row], found.type).to_pylist()
    assert {name for name, value in kept.items() if value is not None} <= document.keys()
