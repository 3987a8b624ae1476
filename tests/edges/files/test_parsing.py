"""Lines as JSON, and the reasons for which others are not."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.errors import BadEdge
from headrace.edges.files.parsing import Format, NotParsed, parser_of

COMBINED = (
    b'203.0.113.9 - ada [18/Nov/2026:08:46:04 +0100] "GET /cart?id=1 HTTP/1.1" 200 512 '
    b'"https://shop.example/" "Mozilla/5.0 (\\"quoted\\")"'
)


def parsed(format: Format, line: bytes, expression: str | None = None) -> Any:
    return json.loads(parser_of(format, expression)(line))


def test_combined_log_line_has_its_event_time_in_utc_and_typed_numbers() -> None:
    assert parsed("combined", COMBINED) == {
        "time": "2026-11-18T07:46:04Z",
        "host": "203.0.113.9",
        "user": "ada",
        "method": "GET",
        "path": "/cart?id=1",
        "protocol": "HTTP/1.1",
        "status": 200,
        "bytes": 512,
        "referer": "https://shop.example/",
        "agent": 'Mozilla/5.0 (\\"quoted\\")',
    }


def test_common_log_format_and_missing_fields_are_read() -> None:
    line = b'::1 - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.0" 304 -'

    assert parsed("combined", line) == {
        "time": "2026-01-01T00:00:00Z",
        "host": "::1",
        "method": "GET",
        "path": "/",
        "protocol": "HTTP/1.0",
        "status": 304,
        "bytes": 0,
    }


def test_request_that_is_no_http_is_kept_as_the_path() -> None:
    line = rb'::1 - - [01/Jan/2026:00:00:00 +0000] "\x16\x03\x01" 400 0 "-" "-"'

    found = parsed("combined", line)

    assert (found["path"], "method" in found) == (r"\x16\x03\x01", False)


@pytest.mark.parametrize(
    ("format", "line", "reason"),
    [
        ("combined", b"", "not of the combined log format"),
        ("combined", COMBINED.replace(b"Nov", b"Foo"), "no time of the combined"),
        ("combined", COMBINED.replace(b"18/Nov", b"31/Nov"), "is no time: "),
        ("combined", COMBINED.replace(b":08:", b":25:"), "is no time: "),
        ("json", b"[1]", "not a JSON object: Expected `object`"),
        ("json", b"{broken", "not a JSON object: JSON is malformed"),
        ("json", b'{"a": "\xff"}', "not a JSON object: "),
        ("json", b'{"a": ' + b"[" * 100_000, "nested too deeply"),
        ("logfmt", b"just words here", "no field of logfmt"),
        ("logfmt", b'a="open', "not logfmt at character 2"),
        ("logfmt", b"=value", "not logfmt at character 1"),
    ],
)
def test_line_that_does_not_parse_has_a_reason(format: Format, line: bytes, reason: str) -> None:
    with pytest.raises(NotParsed, match=reason):
        parser_of(format)(line)


def test_json_stays_as_it_was_written() -> None:
    line = b'{ "a": 1.0, "a": 2,"b":"\\u0041" }'

    assert parser_of("json")(line) == line


def test_logfmt_has_plain_quoted_and_lone_names() -> None:
    line = b'level=info msg="it \\"works\\"\\n" took=3ms empty= done\r'.rstrip()

    assert parsed("logfmt", line) == {
        "level": "info",
        "msg": 'it "works"\n',
        "took": "3ms",
        "empty": "",
        "done": True,
    }


def test_named_groups_of_an_expression_are_the_fields() -> None:
    expression = r"^(?P<level>\w+): (?P<text>.*?)(?: \((?P<code>\d+)\))?$"

    assert parsed("regex", b"WARN: disk \xff full", expression) == {
        "level": "WARN",
        "text": r"disk \xff full",
    }
    assert parsed("regex", b"WARN: disk (7)", expression)["code"] == "7"
    with pytest.raises(NotParsed, match="does not match"):
        parser_of("regex", expression)(b"nothing")


def test_expression_needs_a_named_group_and_its_format() -> None:
    with pytest.raises(BadEdge, match="no named group"):
        parser_of("regex", "(.*)")
    with pytest.raises(BadEdge, match="needs --regex"):
        parser_of("regex")
    with pytest.raises(BadEdge, match="is for --parse regex"):
        parser_of("json", "(?P<a>.)")


LINES = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([*COMBINED.split(b" "), b"a=", b'"', b"\\", b"[", b"]", b"=", b"-"])).map(
        b" ".join
    ),
)


@given(LINES, st.sampled_from(["combined", "json", "logfmt", "regex"]))
def test_any_line_becomes_a_json_object_or_has_a_reason(line: bytes, format: Format) -> None:
    parse = parser_of(format, r"(?P<word>\w+)" if format == "regex" else None)
    with contextlib.suppress(NotParsed):
        assert isinstance(json.loads(parse(line)), dict)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z.]{1,8}", fullmatch=True), st.text('ab "\\=\n\t', max_size=8), min_size=1
    )
)
def test_logfmt_reads_what_was_quoted(fields: dict[str, str]) -> None:
    escaped = {
        name: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        for name, value in fields.items()
    }
    line = " ".join(f'{name}="{value}"' for name, value in escaped.items())

    assert parsed("logfmt", line.encode()) == fields
