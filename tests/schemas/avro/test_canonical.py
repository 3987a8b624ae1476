"""An Avro schema as JSON again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.avro.canonical import canonical_value
from headrace.schemas.avro.parsing import parse_avro
from headrace.schemas.json_text import canonical
from tests.schemas.avro.pairs import Pairs


def canonical_of(value: Any) -> bytes:
    return canonical(canonical_value(parse_avro(json.dumps(value))))


RECORD = {
    "type": "record", "name": "R", "namespace": "a", "doc": "of a test", "aliases": ["S"],
    "fields": [{"name": "f", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1}],
}  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        dict(reversed(RECORD.items())),
        {**RECORD, "name": "a.R", "namespace": "ignored", "aliases": ["a.S"]},
        {**RECORD, "fields": [{**RECORD["fields"][0], "order": "ascending", "aliases": []}]},  # type: ignore[dict-item]
    ],
    ids=["order of keys", "full names", "defaults of the specification"],
)
def test_texts_of_the_same_schema_have_the_same_form(other: Any) -> None:
    assert canonical_of(other) == canonical_of(RECORD)


@pytest.mark.parametrize("change", [
    {"doc": "of another test"}, {"aliases": ["T"]}, {"owner": "me"}, {"fields": []}, {"namespace": "b"},
    {"type": "error"},
])  # fmt: skip
def test_what_a_reader_may_see_is_part_of_the_form(change: dict[str, Any]) -> None:
    assert canonical_of({**RECORD, **change}) != canonical_of(RECORD)


def test_a_primitive_without_properties_is_its_name() -> None:
    assert canonical_of({"type": "int", "name": "unused"}) == b'"int"'
    assert canonical_of({"type": "int", "logicalType": "date"}) == b'{"logicalType":"date","type":"int"}'


@given(st.integers(0, 2**32))
def test_the_form_is_the_form_of_itself(seed: int) -> None:
    form = canonical_of(Pairs(seed).schema())
    assert canonical_of(json.loads(form)) == form
