from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.records import Format, Record, encoded


def decoded(value: bytes | None, format: Format = Format.JSON, **fields: Any) -> dict[str, Any]:
    record = Record(
        **{
            "topic": "t",
            "partition": 0,
            "offset": 7,
            "timestamp_ms": 9,
            "key": None,
            "headers": [],
            **fields,
        },
        value=value,
    )
    text = encoded(record, format)
    assert b"\n" not in text
    assert b"\r" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def test_json_value_is_part_of_the_json_without_its_line_breaks() -> None:
    assert decoded(b'{\n "a":\r\n 1}')["value"] == {"a": 1}


def test_value_of_another_format_is_in_base64_under_another_name() -> None:
    for content, format in ((b"no json", Format.JSON), (b"\xff", Format.TEXT), (b'"\\ud800"', Format.JSON)):
        found = decoded(content, format)
        assert (found["value"], base64.b64decode(found["value_base64"])) == (None, content)


def test_json_that_is_nested_too_deep_is_in_base64() -> None:
    assert decoded(b"[" * 100_000 + b"]" * 100_000)["value"] is None


def test_tombstone_has_no_value_in_either_form() -> None:
    found = decoded(None, key=b"k")
    assert (found["key"], found["value"], "value_base64" in found) == ("k", None, False)


def test_headers_are_text_or_base64_in_their_order() -> None:
    found = decoded(b"1", headers=[("a", b"x"), ("a", b"\xff"), ("b", None)])
    assert found["headers"] == [
        {"name": "a", "value": "x"},
        {"name": "a", "value": None, "value_base64": "/w=="},
        {"name": "b", "value": None},
    ]


@given(key=st.none() | st.binary(), value=st.none() | st.binary())
def test_any_bytes_come_back_from_base64(key: bytes | None, value: bytes | None) -> None:
    found = decoded(value, Format.BASE64, key=key)
    as_bytes = {
        name: None if found[name] is None else base64.b64decode(found[name]) for name in ("key", "value")
    }
    assert as_bytes == {"key": key, "value": value}


@given(text=st.text())
def test_any_text_comes_back_as_text(text: str) -> None:
    assert decoded(text.encode(), Format.TEXT)["value"] == text
