"""Avro's schema resolution, decided beforehand."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schemas.avro.compatibility import REASONS_MAX, incompatibilities_of_avro
from headrace.schemas.avro.parsing import parse_avro
from tests.schemas.avro.pairs import PRIMITIVES, Pairs


def found(reader: Any, writer: Any) -> list[tuple[str, str]]:
    reasons = incompatibilities_of_avro(parse_avro(json.dumps(reader)), parse_avro(json.dumps(writer)))
    return [(each.kind, each.path) for each in reasons]


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


PROMOTIONS = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
    ("float", "double"), ("string", "bytes"), ("bytes", "string"),
}  # fmt: skip


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_a_primitive_is_read_as_itself_and_as_what_it_is_promoted_to(reader: str, writer: str) -> None:
    is_readable = reader == writer or (writer, reader) in PROMOTIONS
    assert found(reader, writer) == ([] if is_readable else [("TYPE_MISMATCH", "/")])


LIST = {"type": "array", "items": "int"}
TREE = record(field("value", "int"), field("children", {"type": "array", "items": "R"}))

COMPATIBLE: list[tuple[str, Any, Any]] = [
    ("items are promoted", {"type": "array", "items": "long"}, LIST),
    ("values are promoted", {"type": "map", "values": "double"}, {"type": "map", "values": "int"}),
    ("a field is removed", record(), record(field("a", "int"))),
    ("a field with a default is added", record(field("a", "int", default=1)), record()),
    ("a default may be null", record(field("a", ["null", "int"], default=None)), record()),
    ("fields are found by name", record(field("b", "int"), field("a", "string")),
     record(field("a", "string"), field("b", "int"))),
    ("a field is renamed with an alias", record(field("b", "int", aliases=["a"])), record(field("a", "int"))),
    ("a record is renamed with an alias", record(name="S", aliases=["R"]), record()),
    ("an alias is a full name", record(name="S", namespace="x", aliases=["y.R"]), record(namespace="y")),
    ("the namespace differs", record(namespace="x"), record(namespace="y")),
    ("a symbol is added", enum("A", "B"), enum("A")),
    ("a removed symbol is read as the default", enum("A", default="A"), enum("A", "B")),
    ("an enum is renamed with an alias", enum("A", name="G", aliases=["E"]), enum("A")),
    ("a fixed is renamed with an alias", fixed(4, name="G", aliases=["F"]), fixed(4)),
    ("a union has one more branch", ["int", "string"], ["int"]),
    ("a value becomes a union", ["null", "int"], "int"),
    ("a union becomes its only branch", "long", ["int"]),
    ("a branch is promoted", ["double", "string"], ["int", "long", "bytes"]),
    ("branches are in another order", ["string", "int"], ["int", "string"]),
    ("a recursive record", record(*TREE["fields"], field("note", "string", default="")), TREE),
    ("a logical type is added", {"type": "long", "logicalType": "timestamp-millis"}, "long"),
    ("the same full name comes before the same last part",
     [record(field("x", "string"), namespace="a"), record(field("x", "int"), namespace="b")],
     record(field("x", "int"), namespace="b")),
    ("an empty union of the writer has no values", "int", []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer"), [each[1:] for each in COMPATIBLE], ids=[each[0] for each in COMPATIBLE]
)
def test_compatible(reader: Any, writer: Any) -> None:
    assert found(reader, writer) == []


INCOMPATIBLE: list[tuple[str, Any, Any, list[tuple[str, str]]]] = [
    ("another kind", LIST, {"type": "map", "values": "int"}, [("TYPE_MISMATCH", "/")]),
    ("items are narrowed", LIST, {"type": "array", "items": "long"}, [("TYPE_MISMATCH", "/items")]),
    ("values are narrowed", {"type": "map", "values": "int"}, {"type": "map", "values": "string"},
     [("TYPE_MISMATCH", "/values")]),
    ("a field without a default is added", record(field("a", "int")), record(),
     [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")]),
    ("the default of an enum is no default of the field", record(field("e", enum("A", default="A"))), record(),
     [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")]),
    ("a field is narrowed", record(field("a", "int")), record(field("a", "long")),
     [("TYPE_MISMATCH", "/fields/0/type")]),
    ("the alias is the writer's", record(field("b", "int")), record(field("a", "int", aliases=["b"])),
     [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/0")]),
    ("a record is renamed", record(name="S"), record(), [("NAME_MISMATCH", "/name")]),
    ("a symbol is removed", enum("A"), enum("A", "B"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
    ("the default is the writer's", enum("A"), enum("A", "B", default="A"), [("MISSING_ENUM_SYMBOLS", "/symbols")]),
    ("a fixed is longer", fixed(5), fixed(4), [("FIXED_SIZE_MISMATCH", "/size")]),
    ("a fixed is renamed", fixed(4, name="G"), fixed(4), [("NAME_MISMATCH", "/name")]),
    ("a branch is removed", ["int"], ["int", "string"], [("MISSING_UNION_BRANCH", "/")]),
    ("a branch of two is removed", ["int", "null"], ["int", "string"], [("MISSING_UNION_BRANCH", "/")]),
    ("a union becomes one of its branches", "int", ["null", "int"], [("TYPE_MISMATCH", "/")]),
    ("a recursive record differs within", record(field("value", "int"), TREE["fields"][1], field("x", "int")), TREE,
     [("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/2")]),
    ("a record in a branch", ["null", record(field("a", "int"), field("b", "int"))],
     ["null", record(field("a", "int"))], [("READER_FIELD_MISSING_DEFAULT_VALUE", "/1/fields/1")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer", "reasons"),
    [each[1:] for each in INCOMPATIBLE],
    ids=[each[0] for each in INCOMPATIBLE],
)
def test_incompatible(reader: Any, writer: Any, reasons: list[tuple[str, str]]) -> None:
    assert found(reader, writer) == reasons


def test_what_was_compatible_only_within_an_incompatible_pair_is_compared_again() -> None:
    """`p.B` is compatible as long as `p.A` is. That is not, but the union has another branch for it."""

    def first(space: str, type_of_x: str) -> dict[str, Any]:
        inner = record(field("a", ["null", "A"]), name="B")
        return record(field("b", inner), field("x", type_of_x), name="A", namespace=space)

    other = record(field("x", "string"), name="A", namespace="q")
    reader = record(field("first", [first("p", "int"), other]), field("second", "p.B"))
    writer = record(field("first", first("r", "string")), field("second", "r.B"))
    assert found(record(reader["fields"][0]), record(writer["fields"][0])) == []
    assert found(reader, writer) != []


def test_reasons_of_types_that_are_used_many_times_are_bounded() -> None:
    def nested(leaf: str) -> dict[str, Any]:
        type_: Any = record(field("x", leaf), name="R0")
        for level in range(1, 8):
            first, *others = [f"f{n}" for n in range(10)]
            type_ = record(
                field(first, type_), *(field(n, f"R{level - 1}") for n in others), name=f"R{level}"
            )
        return dict(type_)

    assert 0 < len(found(nested("int"), nested("string"))) <= REASONS_MAX


def is_read(datum: Any, writer: Any, reader: Any) -> bool:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, writer, datum)
    written.seek(0)
    try:
        fastavro.schemaless_reader(written, writer, reader)
    except (fastavro.read.SchemaResolutionError, KeyError, TypeError, ValueError):
        return False
    return True


@settings(max_examples=500)
@given(st.integers(0, 2**32))
def test_fastavro_reads_all_data_of_compatible_schemas_and_not_all_of_incompatible_ones(seed: int) -> None:
    pairs = Pairs(seed)
    writer = pairs.schema()
    reader = pairs.evolved(writer)
    parsed_writer, parsed_reader = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    is_compatible = not found(reader, writer)
    read = [is_read(datum, parsed_writer, parsed_reader) for datum in pairs.data(writer)]
    assert all(read) == is_compatible, (writer, reader)
