"""The JSON Schemas of rows. test_values.py has rows that are valid by them."""

from __future__ import annotations

import json

import pytest

from headrace.pipeline import BadSink
from headrace.pipeline.sinks.registered.json_schema import json_schema
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType
from headrace.schemas.json_schema.compatibility import incompatibilities_of_json_schema
from tests.pipeline.sinks.registered.test_avro_schema import ARRAY, MAP, row


def test_column_that_is_added_is_a_compatible_change_and_null_is_always_valid() -> None:
    before, after = (
        SchemaText(text=json.dumps(json_schema(row(columns), "t")), type=SchemaType.JSON).json_schema()
        for columns in ("id long", f"id long; list {ARRAY}; map {MAP}; raw binary; at timestamp; none void")
    )
    assert incompatibilities_of_json_schema(after, before) == []
    after.validator_class(after.contents).validate(dict.fromkeys(("id", "list", "map", "raw", "at", "none")))
    after.validator_class(after.contents).validate({"list": [None, {"b": 1}], "map": {"a": "2026-01-01"}})
    assert not after.validator_class(after.contents).is_valid({"other": 1})


def test_column_that_json_does_not_have_is_rejected() -> None:
    with pytest.raises(BadSink, match=r"t\.a: JSON Schema has no type for variant"):
        json_schema(row("a variant"), "t")
