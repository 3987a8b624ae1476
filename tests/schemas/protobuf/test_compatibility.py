"""Whether data of a writer's Protobuf schema can be read with a reader's schema."""

from __future__ import annotations

import pytest

from headrace.schemas.protobuf.compatibility import incompatibilities_of_protobuf
from headrace.schemas.protobuf.parsing import ProtobufSchema, parse_protobuf


def proto(body: str, syntax: str = "proto3", **imports: ProtobufSchema) -> ProtobufSchema:
    lines = "".join(f'import "{name}.proto";' for name in imports)
    pairs = [(f"{name}.proto", each) for name, each in imports.items()]
    return parse_protobuf(f'syntax = "{syntax}"; package p; {lines} {body}', referenced=pairs)


def found(reader: str, writer: str, syntax: str = "proto3") -> list[tuple[str, str]]:
    reasons = incompatibilities_of_protobuf(proto(reader, syntax), proto(writer, syntax))
    return [(each.kind, each.path) for each in reasons]


COMPATIBLE: list[tuple[str, str, str]] = [
    ("a field is added", "message M { int32 a = 1; string b = 2; }", "message M { int32 a = 1; }"),
    ("a field is removed", "message M { int32 a = 1; }", "message M { int32 a = 1; string b = 2; }"),
    ("a field is renamed", "message M { int32 b = 1; }", "message M { int32 a = 1; }"),
    ("a message is added", "message M {} message N {}", "message M {}"),
    ("messages change places", "message N {} message M {}", "message M {} message N {}"),
    ("an integer is wider", "message M { int64 a = 1; }", "message M { int32 a = 1; }"),
    ("a string becomes bytes", "message M { bytes a = 1; }", "message M { string a = 1; }"),
    ("a string becomes a list", "message M { repeated string a = 1; }", "message M { string a = 1; }"),
    ("a symbol is added",
     "message M { E e = 1; } enum E { A = 0; B = 1; }", "message M { E e = 1; } enum E { A = 0; }"),
    ("one field moves to a oneof", "message M { oneof o { int32 a = 1; } }", "message M { int32 a = 1; }"),
    ("a oneof has one more",
     "message M { oneof o { int32 a = 1; int32 b = 2; } }", "message M { oneof o { int32 a = 1; } }"),
    ("a number becomes an enum", "message M { E e = 1; } enum E { A = 0; }", "message M { int32 e = 1; }"),
    ("an optional field", "message M { optional int32 a = 1; }", "message M { int32 a = 1; }"),
    ("values of a map are wider", "message M { map<string, int64> a = 1; }", "message M { map<string, int32> a = 1; }"),
]  # fmt: skip

INCOMPATIBLE: list[tuple[str, str, str, list[tuple[str, str]]]] = [
    ("a message is removed", "message M {}", "message M {} message N {}", [("MESSAGE_REMOVED", "#/p.N")]),
    ("another wire type", "message M { string a = 1; }", "message M { int32 a = 1; }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/p.M/1")]),
    ("a zigzag integer", "message M { sint32 a = 1; }", "message M { int32 a = 1; }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/p.M/1")]),
    ("a message instead of a scalar", "message M { M a = 1; }", "message M { string a = 1; }",
     [("FIELD_KIND_CHANGED", "#/p.M/1")]),
    ("another enum", "message M { B a = 1; } enum A { A0 = 0; } enum B { B0 = 0; }",
     "message M { A a = 1; } enum A { A0 = 0; } enum B { B0 = 0; }", [("FIELD_NAMED_TYPE_CHANGED", "#/p.M/1")]),
    ("another message", "message M { B a = 1; } message A {} message B {}",
     "message M { A a = 1; } message A {} message B {}", [("FIELD_NAMED_TYPE_CHANGED", "#/p.M/1")]),
    ("a list of numbers", "message M { repeated int32 a = 1; }", "message M { int32 a = 1; }",
     [("FIELD_NUMERIC_LABEL_CHANGED", "#/p.M/1")]),
    ("a oneof has one less",
     "message M { oneof o { int32 a = 1; } }", "message M { oneof o { int32 a = 1; int32 b = 2; } }",
     [("ONEOF_FIELD_REMOVED", "#/p.M/2")]),
    ("two fields move to a oneof", "message M { oneof o { int32 a = 1; int32 b = 2; } }",
     "message M { int32 a = 1; int32 b = 2; }", [("MULTIPLE_FIELDS_MOVED_TO_ONEOF", "#/p.M/o")]),
    ("within a nested message", "message M { message N { string a = 1; } }", "message M { message N { int32 a = 1; } }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/p.M.N/1")]),
    ("values of a map", "message M { map<string, string> a = 1; }", "message M { map<string, int32> a = 1; }",
     [("FIELD_SCALAR_KIND_CHANGED", "#/p.M.AEntry/2")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "writer"), [each[1:] for each in COMPATIBLE], ids=[each[0] for each in COMPATIBLE]
)
def test_compatible(reader: str, writer: str) -> None:
    assert found(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "reasons"),
    [each[1:] for each in INCOMPATIBLE],
    ids=[each[0] for each in INCOMPATIBLE],
)
def test_incompatible(reader: str, writer: str, reasons: list[tuple[str, str]]) -> None:
    assert found(reader, writer) == reasons


def test_required_fields_are_neither_added_nor_removed() -> None:
    with_field, without = "message M { required int32 a = 1; }", "message M {}"
    assert found(with_field, without, "proto2") == [("REQUIRED_FIELD_ADDED", "#/p.M/1")]
    assert found(without, with_field, "proto2") == [("REQUIRED_FIELD_REMOVED", "#/p.M/1")]
    assert found(with_field, "message M { optional int32 a = 1; }", "proto2") == [
        ("REQUIRED_FIELD_ADDED", "#/p.M/1")
    ]


def test_another_package_is_incompatible() -> None:
    one, two = (
        parse_protobuf('syntax = "proto3"; package a;'),
        parse_protobuf('syntax = "proto3"; package b;'),
    )
    assert [each.kind for each in incompatibilities_of_protobuf(one, two)] == ["PACKAGE_CHANGED"]


def test_types_of_imported_files_are_compared_if_they_are_used() -> None:
    def using(leaf: str) -> ProtobufSchema:
        imported = proto(f"message Used {{ {leaf} a = 1; }} message Unused {{}}")
        return proto("message M { Used used = 1; }", other=imported)

    reasons = incompatibilities_of_protobuf(using("string"), using("int32"))
    assert [(each.kind, each.path) for each in reasons] == [("FIELD_SCALAR_KIND_CHANGED", "#/p.Used/1")]
    assert incompatibilities_of_protobuf(using("int64"), using("int32")) == []
