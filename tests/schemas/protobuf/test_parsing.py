"""Text, or a descriptor in base64, -> a compiled Protobuf schema."""

from __future__ import annotations

import base64

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.protobuf.parsing import canonical_bytes, parse_protobuf, serialized

ORDER = (
    'syntax = "proto3"; package shop; message Order { int64 order_id = 1; } message Line { Order of = 1; }'
)


def test_a_descriptor_is_the_same_schema_as_its_text() -> None:
    schema = parse_protobuf(ORDER)
    descriptor = FileDescriptorProto.FromString(base64.b64decode(serialized(schema)))
    for message in descriptor.message_type:
        for field in message.field:
            field.ClearField("json_name")  # as in the descriptors of generated code
    again = parse_protobuf(base64.b64encode(descriptor.SerializeToString()).decode())
    assert canonical_bytes(again.file) == canonical_bytes(schema.file)
    assert again.text.startswith('syntax = "proto3";\npackage shop;\nmessage Order {')


def test_comments_and_white_space_do_not_matter_and_the_order_of_messages_does() -> None:
    one = parse_protobuf('syntax = "proto3"; message A {} message B {}')
    two = parse_protobuf('// a comment\nsyntax = "proto3";\n\nmessage A {}\nmessage B {}\n')
    swapped = parse_protobuf('syntax = "proto3"; message B {} message A {}')
    assert canonical_bytes(one.file) == canonical_bytes(two.file) != canonical_bytes(swapped.file)


def test_imports_of_imports_are_found() -> None:
    order = parse_protobuf(ORDER)
    sale = 'syntax = "proto3"; import "order.proto"; message Sale { shop.Order order = 1; }'
    day = 'syntax = "proto3"; import "sale.proto"; message Day { repeated Sale sales = 1; }'
    schema = parse_protobuf(
        day, referenced=[("sale.proto", parse_protobuf(sale, referenced=[("order.proto", order)]))]
    )
    assert [each.name for each in schema.imported] == ["order.proto", "sale.proto"]


def test_custom_options_are_a_part_of_a_schema_and_are_lost_in_its_descriptor() -> None:
    def with_limit(limit: int) -> str:
        return (
            'syntax = "proto3"; import "google/protobuf/descriptor.proto";'
            " extend google.protobuf.FieldOptions { int32 limit = 50000; }"
            f" message M {{ int32 a = 1 [(limit) = {limit}]; }}"
        )

    one, two = parse_protobuf(with_limit(1)), parse_protobuf(with_limit(2))
    assert canonical_bytes(one.file) != canonical_bytes(two.file)
    assert "limit) =" not in parse_protobuf(serialized(one)).text


@pytest.mark.parametrize(
    ("text", "problem"),
    [("AAAA", "not of a descriptor"), ("not a schema", "default.proto:1:1"), (ORDER[:-1], "default.proto")],
)
def test_an_invalid_schema_is_rejected(text: str, problem: str) -> None:
    with pytest.raises(InvalidSchema, match=problem):
        parse_protobuf(text)
