"""Lines and bytes as records. No broker is involved."""

from __future__ import annotations

import io
import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.records import produce_input
from headrace.cli.records.produce_input import BadLine, Block, LineRules, read_chunks, read_lines

PLAIN: dict[str, Any] = {"is_json": False, "key": None, "key_separator": None, "empty_is_tombstone": False}
Pair = tuple[bytes | None, bytes | None]


def lines_of(text: bytes, **rules: Any) -> list[Pair | tuple[int, str]]:
    """Key and value of each record, or number and reason of a bad line."""
    found: list[Pair | tuple[int, str]] = []
    for each in read_lines(io.BytesIO(text), LineRules(**{**PLAIN, **rules})):
        found += each.records if isinstance(each, Block) else [(each.number, each.reason)]
    return found


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b"", []),
        (b"one\r\ntwo\n\nlast without end", [b"one", b"two", b"", b"last without end"]),
        (b"\xff\xfe\n", [b"\xff\xfe"]),
        (b"\r\r\n", [b"\r"]),
    ],
)
def test_each_line_is_a_record_without_its_end(text: bytes, values: list[bytes]) -> None:
    assert lines_of(text) == [(None, value) for value in values]


def test_key_is_the_same_for_all_or_before_the_first_separator() -> None:
    assert lines_of(b"1\n2\n", key=b"k") == [(b"k", b"1"), (b"k", b"2")]
    assert lines_of(b"k::v::2\n::v\n", key_separator=b"::") == [(b"k", b"v::2"), (b"", b"v")]


def test_bad_line_has_its_number_and_the_next_lines_are_read() -> None:
    read = lines_of(b"a:1\nb\nc:3\n", key_separator=b":")

    assert read == [(b"a", b"1"), (2, "no key separator ':'"), (b"c", b"3")]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{broken", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        (b"NaN", "not JSON: NaN is not a number in JSON"),
        (b"-Infinity", "not JSON: -Infinity is not a number in JSON"),
        (b"", "not JSON: Expecting value at column 1"),
        (b'{"a": 1} trailing', "not JSON: Extra data at column 10"),
        (b'"\xff"', "not JSON: not UTF-8 at byte 2"),
        (b"[" * 100_000, "not JSON that can be parsed: nested too deeply"),
    ],
    ids=["broken", "nan", "infinity", "empty", "trailing", "not-utf8", "nested"],
)
def test_line_that_is_not_json_is_bad(value: bytes, reason: str) -> None:
    assert lines_of(value + b"\n", is_json=True) == [(1, reason)]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_json_is_sent_as_it_was_written(value: Any) -> None:
    text = json.dumps(value).encode()

    assert lines_of(text + b"\n", is_json=True) == [(None, text)]


def test_empty_value_is_a_tombstone_only_if_wanted() -> None:
    assert lines_of(b"k:\n", key_separator=b":") == [(b"k", b"")]
    assert lines_of(b"k:\n", key_separator=b":", empty_is_tombstone=True, is_json=True) == [(b"k", None)]


def test_line_longer_than_a_record_can_be_ends_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_input, "RECORD_BYTES_MAX", 5)

    assert lines_of(b"1234\n123456\n12\n") == [(None, b"1234"), (2, "longer than 5 bytes")]


@pytest.mark.parametrize(
    ("chunk_bytes", "values"),
    [(None, [b"aaaa\nbbb\r\n"]), (4, [b"aaaa", b"\nbbb", b"\r\n"]), (100, [b"aaaa\nbbb\r\n"])],
)
def test_bytes_are_one_record_or_one_for_each_chunk(chunk_bytes: int | None, values: list[bytes]) -> None:
    read = list(read_chunks(io.BytesIO(b"aaaa\nbbb\r\n"), chunk_bytes, key=b"k"))

    assert read == [Block(records=[(b"k", each)], input_bytes=len(each)) for each in values]


def test_input_too_large_for_one_record_needs_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_input, "RECORD_BYTES_MAX", 5)

    (bad,) = read_chunks(io.BytesIO(b"123456"), None, key=None)

    assert isinstance(bad, BadLine)
    assert "give --chunk-bytes" in bad.reason


@given(st.binary(), st.booleans())
def test_size_of_the_input_is_the_sum_over_its_blocks(text: bytes, is_json: bool) -> None:
    read = read_lines(io.BytesIO(text), LineRules(**{**PLAIN, "is_json": is_json}))

    assert sum(each.input_bytes for each in read if isinstance(each, Block)) == len(text)


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"k:v", b":"])).map(b"".join), st.integers(1, 7)
)
def test_records_are_the_same_whatever_the_size_of_a_block(text: bytes, block_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(produce_input, "BLOCK_BYTES", block_bytes)
        plain, keyed = lines_of(text), lines_of(text, key_separator=b":")

    assert (plain, keyed) == (lines_of(text), lines_of(text, key_separator=b":"))
    lines = text.removesuffix(b"\n").split(b"\n") if text else []
    assert plain == [(None, line.removesuffix(b"\r")) for line in lines]


JSON_CHARACTERS = '[]{},:"0123456789.eE+-truefalsn\\u \t\ufeff\ud800'


@given(st.binary() | st.text(JSON_CHARACTERS).map(lambda text: text.encode(errors="surrogatepass")))
def test_line_is_json_exactly_if_python_parses_it(line: bytes) -> None:
    line = line.replace(b"\n", b"").removesuffix(b"\r")
    try:
        produce_input._check_json_slowly(line)
    except ValueError as error:
        expected: list[Any] = [(1, str(error))]
    else:
        expected = [(None, line)]
    assert lines_of(line + b"\n", is_json=True) == expected


def test_line_that_has_arrived_is_read_without_waiting_for_more() -> None:
    read_end, write_end = os.pipe()
    with open(read_end, "rb") as stream, open(write_end, "wb", buffering=0) as sender:
        blocks = read_lines(stream, LineRules(**PLAIN))
        for line in (b"first", b"second"):
            sender.write(line + b"\n")
            assert next(blocks) == Block(records=[(None, line)], input_bytes=len(line) + 1)
