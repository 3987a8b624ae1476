"""Text -> descriptors, by protoc."""

from __future__ import annotations

import pytest

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.protobuf.compiler import MAIN, compile_proto, main_file

ORDER = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'


def test_a_file_is_compiled_with_what_it_imports() -> None:
    text = (
        'syntax = "proto3"; import "shop/order.proto"; import "google/protobuf/timestamp.proto";'
        " message Sale { shop.Order order = 1; google.protobuf.Timestamp at = 2; }"
    )
    found = compile_proto(text, {"shop/order.proto": ORDER})
    assert [each.name for each in found.file] == ["shop/order.proto", "google/protobuf/timestamp.proto", MAIN]
    assert [each.type_name for each in main_file(found).message_type[0].field] == [
        ".shop.Order",
        ".google.protobuf.Timestamp",
    ]


def test_googles_common_types_need_no_reference() -> None:
    text = 'syntax = "proto3"; import "google/type/money.proto"; message M { google.type.Money price = 1; }'
    assert [each.name for each in compile_proto(text, {}).file] == ["google/type/money.proto", MAIN]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("message {", "default.proto:1:9"),
        ('syntax = "proto3"; message M { Unknown x = 1; }', '"Unknown" is not defined'),
        ('syntax = "proto3"; import "missing.proto";', "missing.proto"),
        ('syntax = "proto3"; import "/etc/passwd";', "passwd"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "already been used"),
        ("message A { " * 5_000 + "}" * 5_000, "recursion limit"),
    ],
)
def test_what_protoc_rejects_is_an_error_with_its_message(text: str, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem) as raised:
        compile_proto(text, {})
    assert raised.value.hint
    assert "headrace-proto-" not in raised.value.message


@pytest.mark.parametrize("path", ["/etc/x.proto", "../x.proto", "a/../../x.proto", "", "a\0b", "x" * 300])
def test_an_import_stays_in_its_folder(path: str) -> None:
    with pytest.raises(InvalidSchema, match="not a path of an import"):
        compile_proto(ORDER, {path: ORDER})
