"""The Protobuf schemas of rows."""

from __future__ import annotations

import pytest

from headrace.pipeline import BadSink
from headrace.pipeline.sinks.registered.protobuf_schema import (
    Numbers,
    nested_name,
    numbers_in,
    protobuf_schema,
)
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType
from headrace.schemas.protobuf.compatibility import incompatibilities_of_protobuf
from headrace.schemas.protobuf.parsing import ProtobufSchema
from tests.pipeline.sinks.registered.test_avro_schema import ARRAY, MAP, NESTED, row


def parsed(text: str) -> ProtobufSchema:
    return SchemaText(text=text, type=SchemaType.PROTOBUF).protobuf()


def test_fields_keep_their_numbers_and_those_of_removed_ones_are_reserved() -> None:
    first = parsed(protobuf_schema(row(f"id long; name string; to {NESTED}"), "orders", Numbers()))
    wider = NESTED.replace(
        '"fields":[', '"fields":[{"name":"a","type":"date","nullable":true,"metadata":{}},'
    )
    second = parsed(
        protobuf_schema(row(f"at timestamp; to {wider}; id long"), "orders", numbers_in(first.file, "orders"))
    )
    (message,) = second.file.message_type
    assert {each.name: each.number for each in message.field} == {"at": 4, "to": 3, "id": 1}
    assert {each.name: each.number for each in message.nested_type[0].field} == {"a": 2, "b": 1}
    assert incompatibilities_of_protobuf(second, first) == []
    third = parsed(protobuf_schema(row("id long; more string"), "orders", numbers_in(second.file, "orders")))
    assert {each.name: each.number for each in third.file.message_type[0].field} == {"id": 1, "more": 5}


def test_every_type_of_column_has_a_field() -> None:
    text = protobuf_schema(
        row(f"list {ARRAY}; map {MAP}; raw binary; ok boolean; small short; price decimal(9,2); ratio float"),
        "t",
        Numbers(),
    )
    assert parsed(text).file.message_type[0].name == "t"
    assert "repeated List list = 1;" in text
    assert "map<string, string> map = 2;" in text


def test_numbers_that_protobuf_reserves_are_skipped() -> None:
    text = protobuf_schema(row("a long; b long"), "t", Numbers({"a": 18_999}))
    assert "optional int64 b = 20000;" in text


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        (f'a {{"type":"array","elementType":{ARRAY},"containsNull":true}}', "Protobuf has no type for array"),
        (f"ship_to {NESTED}; shipTo {NESTED}", "two columns need a message ShipTo"),
        ("a-b long", "can't be called 'a-b'"),
    ],
)
def test_column_that_protobuf_does_not_have_is_rejected(columns: str, problem: str) -> None:
    with pytest.raises(BadSink, match=problem):
        protobuf_schema(row(columns), "t", Numbers())


def test_nested_message_is_called_after_its_column() -> None:
    assert (nested_name("ship_to"), nested_name("__")) == ("ShipTo", "Nested")
