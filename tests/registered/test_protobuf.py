"""Messages of registered Protobuf schemas."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.registered.errors import BadRecord
from headrace.registered.framing import path_bytes, prefix
from headrace.registered.protobuf import Messages, message_and_body, parse_message
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType

TEXT = """
syntax = "proto3"; package shop;
message Item { map<string, int32> counts = 1; message Tag { string text = 1; } }
message Order { message Tag { int32 number = 1; } Tag tag = 1; }
"""


@pytest.fixture(scope="module")
def messages() -> Messages:
    return Messages(SchemaText(text=TEXT, type=SchemaType.PROTOBUF).protobuf())


def test_path_leads_to_the_message_and_back(messages: Messages) -> None:
    name = messages.name_at((1, 0))
    assert name == "shop.Order.Tag"
    assert messages.path_of(name) == (1, 0)
    record = prefix(1) + path_bytes((1, 0)) + messages.kind(name)(number=7).SerializeToString()
    found, body = message_and_body(messages, record)
    assert parse_message(messages.kind(found), body).number == 7
    with pytest.raises(BadRecord, match=r"no message 1\.3"):
        messages.name_at((1, 3))


def test_message_is_chosen_by_a_name_that_is_clear(messages: Messages) -> None:
    assert messages.chosen(None) == "shop.Item"
    assert messages.chosen("Order") == messages.chosen("shop.Order") == "shop.Order"
    with pytest.raises(HeadraceError, match="several messages Tag"):
        messages.chosen("Tag")
    with pytest.raises(HeadraceError, match="no message Ordre") as raised:
        messages.chosen("Ordre")
    assert "Entry" not in raised.value.hint


def test_damaged_message_is_a_bad_record(messages: Messages) -> None:
    with pytest.raises(BadRecord, match=r"not Protobuf of shop\.Order: the message is damaged"):
        parse_message(messages.kind("shop.Order"), b"\x0a\x05\x08")
