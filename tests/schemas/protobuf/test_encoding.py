from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from headrace.schemas.errors import DoesNotFit, InvalidSchema
from headrace.schemas.protobuf.encoding import ProtobufEncoder
from headrace.schemas.protobuf.parsing import ProtobufSchema, parse_protobuf

MONEY = parse_protobuf('syntax = "proto3"; package shop; message Money { int64 cents = 1; }')
ORDER = parse_protobuf(
    'syntax = "proto3"; package shop; import "money.proto"; import "google/protobuf/timestamp.proto";'
    " message Order { int64 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; Order next = 4; }"
    " message Other { string name = 1; }",
    referenced=[("money.proto", MONEY)],
)


def message_class(schema: ProtobufSchema, name: str) -> Any:
    pool = DescriptorPool()
    for file in (*schema.imported, schema.file):
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def test_the_first_message_of_a_schema_is_encoded() -> None:
    data = ProtobufEncoder(ORDER).encode({"id": "7", "price": {"cents": 250}, "at": "2026-11-19T00:00:00Z"})
    order = message_class(ORDER, "shop.Order").FromString(data)
    assert (order.id, order.price.cents, order.at.seconds) == (7, 250, 1_795_046_400)


@pytest.mark.parametrize(
    ("value", "problem"),
    [([], "not an object"), ({"idd": 1}, "no field"), ({"id": "x"}, "parse"), ({"price": 7}, "price")],
)
def test_a_value_that_is_no_message_is_an_error(value: Any, problem: str) -> None:
    with pytest.raises(DoesNotFit, match=problem):
        ProtobufEncoder(ORDER).encode(value)


def test_a_value_that_is_nested_too_deep_is_rejected() -> None:
    value: dict[str, Any] = {}
    for _ in range(200):
        value = {"next": value}
    with pytest.raises(DoesNotFit):
        ProtobufEncoder(ORDER).encode(value)


def test_a_schema_without_messages_encodes_nothing() -> None:
    with pytest.raises(InvalidSchema, match="no message"):
        ProtobufEncoder(parse_protobuf('syntax = "proto3"; enum E { A = 0; }'))
