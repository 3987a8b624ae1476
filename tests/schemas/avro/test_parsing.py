"""JSON text -> an Avro schema."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.schemas.avro.parsing import parse_avro
from headrace.schemas.avro.types import Named, Primitive
from headrace.schemas.errors import InvalidSchema
from tests.schemas.avro.pairs import Pairs


def parse(value: Any, **options: Any) -> Any:
    return parse_avro(json.dumps(value), **options)


def record(*fields: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


@pytest.mark.parametrize(
    ("definition", "full_name"),
    [
        ({"name": "R"}, "R"),
        ({"name": "R", "namespace": "a.b"}, "a.b.R"),
        ({"name": "c.R", "namespace": "a.b"}, "c.R"),
        ({"name": "R", "namespace": ""}, "R"),
    ],
)
def test_a_full_name_is_the_name_with_its_namespace(definition: dict[str, str], full_name: str) -> None:
    assert set(parse(record() | definition).names) == {full_name}


def test_inner_types_inherit_the_namespace_and_uses_find_it() -> None:
    inner = {"type": "fixed", "name": "F", "size": 2, "aliases": ["G", "x.H"]}
    schema = parse(record({"name": "f", "type": inner}, {"name": "g", "type": "F"}, namespace="a"))
    assert set(schema.names) == {"a.R", "a.F"}
    assert schema.names["a.F"].aliases == ("a.G", "x.H")
    assert schema.root.fields[1].type == Named("a.F")


def test_a_name_that_the_namespace_does_not_have_is_looked_up_without_one() -> None:
    money = parse({"type": "fixed", "name": "Money", "size": 8})
    schema = parse(record({"name": "f", "type": "Money"}, namespace="a"), referenced=[money])
    assert schema.root.fields[0].type == Named("Money")


def test_a_record_may_use_itself() -> None:
    schema = parse(record({"name": "next", "type": ["null", "R"]}))
    assert schema.resolve(schema.root.fields[0].type.branches[1]) is schema.root


def test_a_type_may_be_wrapped_in_an_object() -> None:
    assert parse({"type": {"type": "string"}}).root == Primitive("string")
    assert parse({"type": "string", "name": "ignored"}).root == Primitive("string")


def test_names_that_other_registries_accepted_are_read_without_strict() -> None:
    value = record({"name": "a-b", "type": "int"}, namespace="with-dash")
    with pytest.raises(InvalidSchema, match="with-dash"):
        parse(value)
    assert set(parse(value, strict=False).names) == {"with-dash.R"}


INVALID: list[tuple[Any, str]] = [
    (17, "17 is not a type"),
    (None, "None is not a type"),
    ({}, "the type is None"),
    ({"type": 3}, "the type is 3"),
    ("strnig", "'strnig' is unknown.*did you mean string"),
    ({"type": "record", "fields": []}, "need a name"),
    ({"type": "record", "name": "R"}, "no array of fields"),
    (record(1), "/fields/0: a field is an object"),
    (record({"name": "f"}), "`type` is not set"),
    (record({"name": "9f", "type": "int"}), "'9f' is not a name"),
    (record({"name": "f", "type": "int", "order": "up"}), "order 'up'"),
    (record({"name": "f", "type": "int", "aliases": "g"}), "`aliases` is not an array"),
    (record({"name": "f", "type": "int"}, {"name": "f", "type": "int"}), "field 'f' is there twice"),
    (record({"name": "f", "type": record()}), "R is defined twice"),
    ({"type": "record", "name": "int", "fields": []}, "name of a primitive"),
    ({"type": "array"}, "`items` is not set"),
    ({"type": "map"}, "`values` is not set"),
    ({"type": "enum", "name": "E"}, "no array of symbols"),
    ({"type": "enum", "name": "E", "symbols": {}}, "no array of symbols"),
    ({"type": "enum", "name": "E", "symbols": [1]}, "not an array of strings"),
    ({"type": "enum", "name": "E", "symbols": ["a b"]}, "'a b' is not a name"),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "a symbol is there twice"),
    ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "'B' is not a symbol"),
    ({"type": "fixed", "name": "F"}, "size of F is None"),
    ({"type": "fixed", "name": "F", "size": -1}, "size of F is -1"),
    ({"type": "fixed", "name": "F", "size": True}, "size of F is True"),
    (["int", ["string"]], "union as a branch"),
    (["int", "int"], "'int' twice"),
    ([{"type": "array", "items": "int"}, {"type": "array", "items": "string"}], "'array' twice"),
]


@pytest.mark.parametrize(("value", "problem"), INVALID, ids=[problem for _, problem in INVALID])
def test_an_invalid_schema_is_rejected_with_the_place_and_the_problem(value: Any, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem) as raised:
        parse(value)
    assert raised.value.hint


def test_a_wrong_default_is_accepted_because_registered_schemas_have_them() -> None:
    assert parse(record({"name": "f", "type": ["null", "int"], "default": "null"}))


def test_a_schema_that_is_nested_too_deep_is_rejected() -> None:
    text = '{"type":"array","items":' * 100_000 + '"int"' + "}" * 100_000
    with pytest.raises(InvalidSchema, match="levels deep"):
        parse_avro(text)


@given(st.integers(0, 2**32))
def test_what_fastavro_parses_is_parsed(seed: int) -> None:
    schema = Pairs(seed).schema()
    fastavro.parse_schema(schema)
    assert parse(schema)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["int", "record", "R", "array", "enum", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "aliases", "default"]),
        inner, max_size=5),
    max_leaves=20,
))  # fmt: skip
def test_any_json_is_a_schema_or_an_error_with_a_hint(value: Any) -> None:
    try:
        assert parse(value).root
    except InvalidSchema as error:
        hint = error.hint
    else:
        hint = "none is needed"
    assert hint
