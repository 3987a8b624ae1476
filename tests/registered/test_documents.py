"""JSON documents and their schemas."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.registered.documents import PROBLEM_CHARS_MAX, checker, parse_document
from headrace.registered.errors import BadRecord
from headrace.registered.schema import Referenced, SchemaText
from headrace.schemas.definition import SchemaType

SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "to": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/To"}]},
        "at": {"type": "string", "format": "date-time"},
    },
    "required": ["id"],
    "additionalProperties": False,
    "definitions": {"To": {"type": "object", "required": ["city"]}},
}
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(-2, 3) | st.just(1.0) | st.text(max_size=1),
        "tags": st.lists(st.sampled_from(["a", "b", 1])),
        "to": st.none() | st.just({"city": "Graz"}) | st.just({}),
        "at": st.just("yesterday"),
        "other": st.none(),
    },
)


def check_of(schema: Any, **options: Any) -> Any:
    return checker(SchemaText(text=json.dumps(schema), type=SchemaType.JSON, **options).json_schema())


@given(DOCUMENTS)
def test_document_is_bad_if_it_is_for_another_validator(document: Any) -> None:
    is_valid = jsonschema.Draft7Validator(SCHEMA).is_valid(document)
    with contextlib.nullcontext() if is_valid else pytest.raises(BadRecord, match="violates the schema"):
        check_of(SCHEMA)(document)


def test_problem_names_the_place_and_is_short() -> None:
    with pytest.raises(BadRecord, match=r"schema: /tags/1: 7 is not of type \"string\""):
        check_of(SCHEMA)({"id": 1, "tags": ["a", 7]})
    with pytest.raises(BadRecord) as raised:
        check_of(SCHEMA)({"id": "x" * 10_000})
    assert len(str(raised.value)) < PROBLEM_CHARS_MAX + 100


def test_references_are_those_of_the_registry_and_nothing_is_fetched() -> None:
    to = SchemaText(text='{"type": "integer"}', type=SchemaType.JSON)
    check = check_of({"items": {"$ref": "to.json"}}, referenced=(Referenced(name="to.json", schema=to),))
    check([1])
    with pytest.raises(BadRecord):
        check(["x"])


@pytest.mark.parametrize(
    ("dialect", "is_bad"),
    [
        (None, False),
        ("http://json-schema.org/draft-07/schema#", False),
        ("https://json-schema.org/draft/2020-12/schema", True),
    ],
)
def test_dialect_is_that_of_the_schema(dialect: str | None, is_bad: bool) -> None:
    schema = {"prefixItems": [{"type": "integer"}], **({} if dialect is None else {"$schema": dialect})}
    with pytest.raises(BadRecord) if is_bad else contextlib.nullcontext():
        check_of(schema)(["x"])


@given(st.binary(max_size=10))
def test_any_bytes_are_a_document_or_a_bad_record(data: bytes) -> None:
    with contextlib.suppress(BadRecord):  # and no other error
        parse_document(data)


def test_deep_document_is_a_bad_record() -> None:
    with pytest.raises(BadRecord, match="not JSON"):
        parse_document(b"[" * 100_000)
