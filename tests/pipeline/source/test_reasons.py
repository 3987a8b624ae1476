"""Why a record is bad, said so that somebody can mend what wrote it."""

from __future__ import annotations

import json

import pytest

from headrace.pipeline.source.reasons import Finding, reason

ROW = json.dumps(
    {"fields": [{"name": "at", "type": "timestamp"}, {"name": "tags", "type": {"type": "array"}}]}
)
SCHEMAS = json.dumps({"7": {}, "8": {}})


def said(
    format: str, content: bytes | None, *, missing: tuple[str, ...] = (), misfits: tuple[str, ...] = ()
) -> str:
    schema = SCHEMAS if format.startswith("avro") else ROW
    return reason(
        format, schema, content, Finding(is_unreadable=not missing, missing=missing, misfits=misfits)
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"at": 1 2}', "not JSON: Expecting ',' delimiter at character 9"),
        (b"", "not JSON: Expecting value at character 0"),
        (b'{"at": "\xff"}', "not UTF-8: byte 0xff at 8"),
        (b"[1]", "not a JSON object: [1]"),
        (None, "there is no value"),
    ],
)
def test_what_is_not_json_at_all(content: bytes | None, words: str) -> None:
    assert said("json", content) == words


def test_a_field_of_another_type_is_named_with_what_it_holds() -> None:
    content = json.dumps({"at": "yesterday", "tags": {"a": "x" * 100}}).encode()

    assert said("json", content, misfits=("at",)) == "field at: 'yesterday' is not a TIMESTAMP"
    both = said("json", content, misfits=("at", "tags"))
    assert both.endswith("…") is False
    assert 'field tags: {"a": "xxx' in both
    assert "… is not an ARRAY" in both


def test_missing_fields_are_named() -> None:
    assert said("json", b"{}", missing=("at", "tags")) == "field at is missing; field tags is missing"


@pytest.mark.parametrize(
    ("envelope", "misfits", "words"),
    [
        ({"after": {"at": "x"}, "op": "c"}, ("at",), "field at: 'x' is not a TIMESTAMP"),
        ({"payload": {"op": "t"}}, (), "not a row's change: op is 't'"),
        ({"at": 1}, (), "not a row's change: op is null"),
        ({"op": "c"}, (), "not a row's change: neither before nor after holds a row"),
    ],
)
def test_what_is_no_change(envelope: dict[str, object], misfits: tuple[str, ...], words: str) -> None:
    assert said("changes", json.dumps(envelope).encode(), misfits=misfits) == words


@pytest.mark.parametrize(
    ("format", "content", "words"),
    [
        ("avro", b"\xff", "not Avro of the schema"),
        ("avro-registry", b"\x01abcdef", "does not begin with a zero"),
        ("avro-registry", b"\0\0\0\0\x09abc", "schema number 9 is not among those given: 7, 8"),
        ("avro-registry", b"\0\0\0\0\x07abc", "not Avro of schema number 7"),
    ],
)
def test_what_is_not_avro(format: str, content: bytes, words: str) -> None:
    assert words in said(format, content)
