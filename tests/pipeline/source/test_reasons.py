"""The reasons of bad records."""

from __future__ import annotations

import json

import pytest

from headrace.pipeline.source.reasons import Finding, file_reason, reason

ROW = json.dumps(
    {"fields": [{"name": "at", "type": "timestamp"}, {"name": "tags", "type": {"type": "array"}}]}
)
SCHEMAS = json.dumps({"7": {}, "8": {}})


def reason_of(
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
def test_reason_for_a_value_that_is_not_json(content: bytes | None, words: str) -> None:
    assert reason_of("json", content) == words


def test_reason_names_a_field_of_another_type_and_its_value() -> None:
    content = json.dumps({"at": "yesterday", "tags": {"a": "x" * 100}}).encode()

    assert reason_of("json", content, misfits=("at",)) == "field at: 'yesterday' is not a TIMESTAMP"
    both = reason_of("json", content, misfits=("at", "tags"))
    assert both.endswith("…") is False
    assert 'field tags: {"a": "xxx' in both
    assert "… is not an ARRAY" in both


def test_missing_fields_are_named() -> None:
    assert reason_of("json", b"{}", missing=("at", "tags")) == "field at is missing; field tags is missing"


def test_time_that_a_watermark_cannot_follow_is_named() -> None:
    times = {"ahead": "+12026-01-01 00:00:00", "ancient": "1969-12-31 23:00:00"}
    found = [Finding(is_unreadable=False, missing=(), misfits=(), **{name: at}) for name, at in times.items()]
    assert [reason("json", ROW, b"{}", each) for each in found] == [
        "event time +12026-01-01 00:00:00 is too far ahead of the record's timestamp",
        "event time 1969-12-31 23:00:00 is before 1970, where the watermark of a stream starts",
    ]


@pytest.mark.parametrize(
    ("envelope", "misfits", "words"),
    [
        ({"after": {"at": "x"}, "op": "c"}, ("at",), "field at: 'x' is not a TIMESTAMP"),
        ({"payload": {"op": "t"}}, (), "not a row's change: op is 't'"),
        ({"at": 1}, (), "not a row's change: op is null"),
        ({"op": "c"}, (), "not a row's change: neither before nor after holds a row"),
    ],
)
def test_reason_of_a_value_that_is_no_change(
    envelope: dict[str, object], misfits: tuple[str, ...], words: str
) -> None:
    assert reason_of("changes", json.dumps(envelope).encode(), misfits=misfits) == words


@pytest.mark.parametrize(
    ("format", "content", "words"),
    [
        ("avro", b"\xff", "not Avro of the schema"),
        ("avro-registry", b"\x01abcdef", "does not start with a zero"),
        ("avro-registry", b"\0\0\0\0\x09abc", "schema number 9 is not among those given: 7, 8"),
        ("avro-registry", b"\0\0\0\0\x07abc", "not Avro of schema number 7"),
    ],
)
def test_reason_for_a_value_that_is_not_avro(format: str, content: bytes, words: str) -> None:
    assert words in reason_of(format, content)


def test_reason_of_a_row_of_a_file_names_the_column_or_what_the_text_is_not() -> None:
    schema = '{"fields": [{"name": "user", "type": "string"}, {"name": "visits", "type": "integer"}]}'

    def of(text: str | None, *, misfits: tuple[str, ...] = (), missing: tuple[str, ...] = ()) -> str:
        finding = Finding(is_unreadable=text is not None, missing=missing, misfits=misfits)
        return file_reason("csv", schema, text, finding, ["ann", "x"])

    assert of("ann,x", misfits=("visits",)) == "field visits: 'x' is not an INT"
    assert of("ann") == "not CSV with the columns user, visits"
    assert of(None, missing=("user",)) == "column user is missing"
    assert "before 1970" in of(None)
    unreadable = Finding(is_unreadable=True, missing=(), misfits=())
    assert file_reason("json", schema, "{broken", unreadable, []).startswith("not JSON")
