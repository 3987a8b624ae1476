"""Avro's binary encoding, with fastavro as the reader."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.avro.encoding import encode_avro
from headrace.schemas.avro.parsing import parse_avro
from headrace.schemas.errors import DoesNotFit


def encoded(schema: Any, value: Any) -> bytes:
    return encode_avro(parse_avro(json.dumps(schema)), value)


def read(schema: Any, data: bytes) -> Any:
    stream = io.BytesIO(data)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert not stream.read()
    return found


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "small", "type": "int", "default": -3},
        {"name": "text", "type": ["null", "string"], "default": None},
        {"name": "ratio", "type": "double"},
        {"name": "is_on", "type": "boolean"},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "children", "type": {"type": "array", "items": "Node"}},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
    ],
}

_LONGS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)


def _node(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "number": _LONGS,
            "text": st.none() | _TEXTS,
            "ratio": st.floats(allow_nan=False, allow_infinity=False),
            "is_on": st.booleans(),
            "tags": st.dictionaries(_TEXTS, _TEXTS, max_size=2),
            "children": children,
            "color": st.sampled_from(["RED", "BLUE"]),
        },
        optional={"small": st.integers(min_value=-(2**31), max_value=2**31 - 1)},
    )


@given(st.recursive(_node(st.just([])), lambda inner: _node(st.lists(inner, max_size=2)), max_leaves=4))
def test_another_reader_reads_what_is_encoded(value: dict[str, Any]) -> None:
    def with_defaults(node: dict[str, Any]) -> dict[str, Any]:
        return {"small": -3, **node, "children": [with_defaults(each) for each in node["children"]]}

    assert read(NODE, encoded(NODE, value)) == with_defaults(value)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (["null", "string"], {"string": "x"}, "x"),
        (["null", "string"], "x", "x"),
        (["null", "long", "string"], None, None),
        (["int", "long"], 2**40, 2**40),
        ("long", 7.0, 7),
        ("float", 0.5, 0.5),
        ("bytes", "\x00\xff", b"\x00\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        ([{"type": "map", "values": "int"}, "string"], {"a": 1}, {"a": 1}),
        (["null", {"type": "array", "items": "int"}], {"array": [1]}, [1]),
    ],
)
def test_values_and_branches_of_unions(schema: Any, value: Any, expected: Any) -> None:
    assert read(schema, encoded(schema, value)) == expected


def test_a_union_of_records_takes_the_one_whose_fields_the_value_has() -> None:
    def record(name: str, *fields: str) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": each, "type": "int"} for each in fields]}

    schema = [record("A", "a"), record("B", "a", "b")]
    assert read(schema, encoded(schema, {"a": 1, "b": 2})) == {"a": 1, "b": 2}
    assert encoded(schema, {"B": {"a": 1, "b": 2}})[0] == 2
    assert encoded(schema, {"a": 1})[0] == 0


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ("int", 2**31, "/: 2147483648 is not int"),
        ("int", True, "is not int"),
        ("long", 1.5, "is not long"),
        ("string", 7, "is not string"),
        ("float", 1e300, "is not float"),
        ("bytes", "€", "bytes"),
        ("null", 0, "is not null"),
        (["null", "int"], "x", "one of null, int"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, ["A"], "one of A"),
        ({"type": "fixed", "name": "F", "size": 2}, "a", "2 bytes"),
        ({"type": "array", "items": "int"}, [1, "x"], "/1: 'x' is not int"),
        ({"type": "map", "values": "int"}, {"a": None}, "/a: None is not int"),
        ({"type": "map", "values": "int"}, [], "an object"),
        (NODE, {}, "/number is missing"),
        (NODE, {"nummer": 1}, "/nummer: the record Node has no such field"),
        (NODE, [], "an object"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_with_its_place(schema: Any, value: Any, problem: str) -> None:
    with pytest.raises(DoesNotFit, match=problem):
        encoded(schema, value)


def test_a_value_that_is_nested_too_deep_is_rejected() -> None:
    schema = {
        "type": "record",
        "name": "L",
        "fields": [{"name": "next", "type": ["null", "L"], "default": None}],
    }
    value: Any = None
    for _ in range(900):
        value = {"next": value}
    with pytest.raises(DoesNotFit, match="too deep"):
        encoded(schema, value)
