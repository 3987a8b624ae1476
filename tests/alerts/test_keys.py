"""Keys, groups and shown records are bounded, whatever a record has."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headrace.alerts.keys import (
    RECORD_CHARS_MAX,
    VALUE_CHARS_MAX,
    record_text,
    text_of,
    values_from,
    values_of,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=20,
)


def test_key_has_nested_fields_and_null_for_missing_ones() -> None:
    record = {"order": {"customer": {"id": 7}}, "tags": ["b", "a"]}
    found = values_of(record, ["order.customer.id", "tags", "city"])
    assert found == {"order.customer.id": 7, "tags": '["b","a"]', "city": None}


def test_long_values_that_differ_are_different_keys() -> None:
    first, second = (values_of({"a": "x" * 10_000 + end}, ["a"])["a"] for end in "12")
    assert first != second
    assert len(first) < VALUE_CHARS_MAX + 20


@given(st.dictionaries(st.text(max_size=50), json_values, max_size=8))
def test_any_record_has_a_key_and_a_short_text(record: dict[str, object]) -> None:
    key = text_of(values_of(record, [*record][:1] or ["a"]))
    assert text_of(values_from(key)) == key
    shown = record_text(record)
    json.loads(shown)
    assert len(shown) <= 6 * RECORD_CHARS_MAX


def test_record_that_is_too_long_shows_the_beginnings_of_its_first_fields() -> None:
    found = json.loads(
        record_text({"level": "ERROR", "text": "x" * 5_000, **{f"f{n}": n for n in range(1_000)}})
    )
    assert (found["level"], found["text"]) == ("ERROR", "x" * 100 + "…")
    assert 10 < len(found) < 200
