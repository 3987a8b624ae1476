"""Columns of a block have the same JSON as the rows of the stream."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.change import Column, Table
from headrace.cdc.postgres.json_columns import json_columns, text_columns, unescaped
from headrace.cdc.postgres.relation import Described
from headrace.cdc.postgres.types import TypeInfo, shape

Texts = list[str | None]

TYPES = ("int4", "text", "bool", "float8", "timestamp", "timestamptz", "date", "bytea", "numeric", "jsonb")
USUAL: list[Texts] = [
    [*texts.split("|"), more]
    for texts, more in (
        (
            r"1|plain|t|1.5|2026-11-18 10:00:00.5|2026-11-18 10:00:00.123456+00|2026-01-01|\x00ff|1.10",
            '{"a": 1}',
        ),
        (r"-3||f|7|1969-12-31 23:59:59|1969-12-31 23:59:59+00|0001-01-01|\x|NaN", "[]"),
    )
]
USUAL.append([None] * len(TYPES))
UNUSUAL: list[Texts] = [
    [
        "1",
        'q"uo\\te\nü\t\v\r\b\f\x01\x7f',
        "t",
        "1e+20",
        "infinity",
        "-infinity",
        "infinity",
        "\\x41",
        "0",
        "1",
    ],
    [
        r"2",
        r"\N",
        r"t",
        r"NaN",
        r"0044-03-15 00:00:00 BC",
        r"0044-03-15 00:00:00+00 BC",
        r"12026-01-01",
        r"\x41",
        r"-1e10",
        '"\u2028"',
    ],
    ["3", "\u2028😀", None, "-0", "12044-03-15 00:00:00", "12044-03-15 00:00:00+00", None, "\\x", "1", "{}"],
    ["4", "tab\tand \\ and \\\\", "f", "-Infinity", None, None, "2026-01-01", None, None, None],
]


def described(types: tuple[str, ...]) -> Described:
    known = {number: TypeInfo(oid=number, name=name) for number, name in enumerate(types, start=1)}
    shapes = [shape(number, -1, known) for number in known]
    names = tuple(f"c{number}" for number in known)
    columns = tuple(Column(name=name, type="any") for name in names)
    return Described(
        table=Table(path=("public", "t"), columns=columns, key=("c1",)),
        source={},
        names=names,
        conversions=tuple(
            (name, one.convert) for name, one in zip(names, shapes, strict=True) if one.convert is not None
        ),
        key_indexes=(0,),
    )


def copied(rows: list[Texts]) -> bytes:
    """As COPY prints them."""
    escapes = str.maketrans(
        {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\v": "\\v", "\b": "\\b", "\f": "\\f"}
    )
    lines = ("\t".join("\\N" if text is None else text.translate(escapes) for text in row) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("rows", [USUAL, UNUSUAL, USUAL + UNUSUAL], ids=["usual", "unusual", "both"])
def test_values_are_those_of_the_stream(rows: list[Texts]) -> None:
    table = described(TYPES)
    columns = json_columns(text_columns(copied(rows), len(TYPES)), table)
    for number, row in enumerate(rows):
        expected = table.row(row)
        found = [column[number].as_py() for column in columns]
        assert found == [msgspec.json.encode(value) for value in expected.values()]


@given(st.lists(st.tuples(st.text(), st.none() | st.text()), min_size=1, max_size=5))
def test_any_text_is_kept(rows: list[tuple[str, str | None]]) -> None:
    given_rows: list[Texts] = [
        [None if text is None else text.replace("\0", "") for text in row] for row in rows
    ]
    columns = json_columns(text_columns(copied(given_rows), 2), described(("text", "text")))
    found = [[json.loads(column[number].as_py()) for column in columns] for number in range(len(rows))]
    assert found == given_rows


def test_line_of_one_empty_text_is_a_row() -> None:
    (column,) = text_columns(b"\n\n", 1)
    assert column.to_pylist() == [b"", b""]


def test_bytes_that_are_no_text_are_replaced() -> None:
    (column,) = json_columns(text_columns(b"a\xffb\n", 1), described(("text",)))
    assert json.loads(column[0].as_py()) == "a\N{REPLACEMENT CHARACTER}b"


def test_escaped_text_is_that_of_the_database() -> None:
    assert unescaped(b"a\\tb\\\\n\\v") == "a\tb\\n\v"
