"""Bodies as records."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.gateway import formats
from headrace.gateway.errors import BadBody, UnsupportedContentType
from headrace.gateway.formats import CONTENT_TYPES, KeyRule
from headrace.gateway.records import NewRecord

NO_KEY = KeyRule()
REST, BINARY, PLAIN, LINES = CONTENT_TYPES
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(), each, max_size=3),
    max_leaves=10,
)


def records_of(content_type: str, body: bytes, rule: KeyRule, *, records_max: int = 100) -> list[NewRecord]:
    return formats.records_of(content_type, body, rule, records_max=records_max)


def pairs(content_type: str, body: str | bytes, rule: KeyRule = NO_KEY) -> list[tuple[Any, Any]]:
    content = body if isinstance(body, bytes) else body.encode()
    return [(each.key, each.value) for each in records_of(content_type, content, rule)]


def test_values_are_kept_as_they_were_sent_and_null_is_a_tombstone() -> None:
    body = (
        '{"records": [{"value": {"a":  1.0}}, {"key": "k", "value": null}, {"value": "é", "partition": 2}]}'
    )
    assert pairs(REST, body) == [(None, b'{"a":  1.0}'), (b'"k"', None), (None, '"é"'.encode())]
    assert [each.partition for each in records_of(REST, body.encode(), NO_KEY)] == [None, None, 2]


@pytest.mark.parametrize("content_type", [REST, BINARY])
def test_a_mistyped_field_of_a_record_is_no_tombstone(content_type: str) -> None:
    with pytest.raises(BadBody, match="valur"):
        records_of(content_type, b'{"records": [{"valur": "a2Fma2E="}]}', NO_KEY)


@pytest.mark.parametrize("key", ['"é"', r'"\u00e9"', ' "é" '])
def test_equal_keys_are_equal_bytes_however_they_are_written(key: str) -> None:
    assert pairs(REST, f'{{"records":[{{"key":{key},"value":1}}]}}') == [('"é"'.encode(), b"1")]


def test_binary_records_are_base64() -> None:
    body = json.dumps(
        {
            "records": [
                {"key": base64.b64encode(b"\x00k").decode(), "value": base64.b64encode(b"\xff").decode()}
            ]
        }
    )
    assert pairs(BINARY, body) == [(b"\x00k", b"\xff")]


def test_plain_json_is_one_event_or_an_array_of_them() -> None:
    assert pairs(PLAIN, ' {"a": 1} ') == [(None, b'{"a": 1}')]
    assert pairs(PLAIN, '\n[{"a": 1}, 2, null]') == [(None, b'{"a": 1}'), (None, b"2"), (None, None)]


def test_lines_are_one_event_each() -> None:
    assert pairs(LINES, '{"a": 1}\r\n\n2\n') == [(None, b'{"a": 1}'), (None, b"2")]


def test_key_is_that_of_the_request_or_of_a_field() -> None:
    assert pairs(PLAIN, "[1, 2]", KeyRule(key="é")) == [("é".encode(), b"1"), ("é".encode(), b"2")]
    events = '{"user": "ann"}\n{"user": {"id": 1}}'
    assert [key for key, _ in pairs(LINES, events, KeyRule(field="user"))] == [b"ann", b'{"id":1}']


@pytest.mark.parametrize(
    ("content_type", "body", "problem"),
    [
        (REST, b"", "is not JSON"),
        (REST, b'{"record": []}', "missing required field `records`"),
        (REST, b'{"records": [{"value": 1, "partition": "x"}]}', "Expected `int | null`"),
        (REST, b'{"records": [{"value": "\xff"}]}', "not UTF-8: invalid start byte at byte 24"),
        (REST, b'{"records": [{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]}", "nested too deep"),
        (BINARY, b'{"records": [{"value": "AA=="}, {"value": "!"}]}', "record 1 is not base64"),
        (BINARY, '{"records": [{"value": "é"}]}'.encode(), "record 0 is not base64"),
        (PLAIN, b"{", "is not JSON"),
        (PLAIN, b"1 2", "trailing characters"),
        (PLAIN, b"[" * 100_000, "nested too deep"),
        (LINES, b"1\n2\n{", "line 3 is not JSON"),
    ],
)
def test_wrong_body_is_rejected_with_the_place(content_type: str, body: bytes, problem: str) -> None:
    with pytest.raises(BadBody, match=problem):
        records_of(content_type, body, NO_KEY)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (REST, b'{"records": [{"value": 1}, {"value": 2}, {"value": 3}]}'),
        (BINARY, b'{"records": [{"value": "AA=="}, {"value": "AA=="}, {"value": "!"}]}'),
        (PLAIN, b"[1, 2, 3]"),
        (LINES, b"1\n\n2\n3\n{"),
    ],
)
def test_more_records_than_allowed_are_rejected_before_any_is_looked_at(
    content_type: str, body: bytes
) -> None:
    with pytest.raises(BadBody, match="more than 2 records"):
        records_of(content_type, body, NO_KEY, records_max=2)


@pytest.mark.parametrize(("body", "problem"), [(b'{"b": 1}', "no field 'a'"), (b"[1]", "event 0 is not as")])
def test_event_without_the_field_of_the_key_is_rejected(body: bytes, problem: str) -> None:
    with pytest.raises(BadBody, match=problem):
        records_of(PLAIN, body, KeyRule(field="a"))


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/vnd.kafka.avro.v2+json"])
def test_other_content_type_is_rejected_with_those_that_are_supported(content_type: str) -> None:
    with pytest.raises(UnsupportedContentType, match="x-ndjson"):
        records_of(content_type, b"1", NO_KEY)


@given(values=st.lists(JSON_VALUES, min_size=1, max_size=5))
def test_any_json_comes_back_as_it_was(values: list[Any]) -> None:
    bodies = {
        REST: json.dumps({"records": [{"value": each} for each in values]}),
        PLAIN: json.dumps(values),
        LINES: "\n".join(json.dumps(each) for each in values),
    }
    for content_type, body in bodies.items():
        found = [None if value is None else json.loads(value) for _, value in pairs(content_type, body)]
        assert found == values


@given(content_type=st.sampled_from(CONTENT_TYPES), body=st.binary(max_size=60))
def test_garbage_is_an_error_for_users(content_type: str, body: bytes) -> None:
    with contextlib.suppress(HeadraceError):
        records_of(content_type, body, NO_KEY)
