"""What a record is as a request: its id, its body and its type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.queue.message import MessageId
from headrace.webhooks.outgoing.message import (
    REDRIVEN_FOR_HEADER,
    Outgoing,
    is_redriven_for,
    json_object,
    message_id,
    request_of,
)

ORIGIN = MessageId("orders", 2, 17)
TIME_MS = 1_700_000_000_123


def record(value: bytes | None, *headers: tuple[str, bytes | None], key: bytes | None = None) -> Outgoing:
    return Outgoing(
        message_id=message_id("big", ORIGIN, TIME_MS),
        origin=ORIGIN,
        timestamp_ms=TIME_MS,
        key=key,
        value=value,
        headers=headers,
    )


def event(value: bytes | None, *headers: tuple[str, bytes | None], key: bytes | None = None) -> Any:
    request = request_of(record(value, *headers, key=key), "cloudevents")
    assert request.content_type == "application/cloudevents+json"
    return json.loads(request.body)


def test_id_is_the_same_for_the_same_record_and_target_only() -> None:
    same = message_id("big", ORIGIN, TIME_MS)
    assert message_id("big", ORIGIN, TIME_MS) == same
    others = {
        message_id("small", ORIGIN, TIME_MS),
        message_id("big", MessageId("orders", 2, 18), TIME_MS),
        message_id("big", MessageId("orders", 1, 17), TIME_MS),
        message_id("big", MessageId("order", 2, 17), TIME_MS),
        message_id("big", ORIGIN, TIME_MS + 1),
    }
    assert len(others | {same}) == 6
    assert same.startswith("msg_")


@pytest.mark.parametrize(
    ("value", "content_type"),
    [
        (b'{"a": 1}', "application/json"),
        (b"17", "application/json"),
        (b"hello", "text/plain; charset=utf-8"),
        (b"\xff\xfe", "application/octet-stream"),
        (b"[" * 100_000, "text/plain; charset=utf-8"),
    ],
)
def test_value_is_the_body_as_it_is(value: bytes, content_type: str) -> None:
    request = request_of(record(value), "none")
    assert (request.body, request.content_type) == (value, content_type)


def test_record_without_a_value_is_an_empty_body() -> None:
    assert request_of(record(None), "none").body == b""


def test_content_type_of_a_record_is_kept_if_it_can_be_a_header() -> None:
    assert request_of(record(b"<a/>", ("Content-Type", b"text/xml")), "none").content_type == "text/xml"
    injected = request_of(record(b"x", ("content-type", b"a/b\r\nX: y")), "none")
    assert injected.content_type == "text/plain; charset=utf-8"


def test_cloud_event_has_the_value_as_its_data() -> None:
    assert event(b'{"a": [1, 2.50]}', key=b"ann") == {
        "specversion": "1.0",
        "id": message_id("big", ORIGIN, TIME_MS),
        "source": "/topics/orders",
        "type": "headrace.record",
        "time": "2023-11-14T22:13:20.123Z",
        "partitionkey": "ann",
        "datacontenttype": "application/json",
        "data": {"a": [1, 2.5]},
    }
    assert event(b"hello")["data"] == "hello"
    assert event(b"\xff")["data_base64"] == "/w=="
    assert "data" not in event(None)


def test_record_that_is_an_event_keeps_its_attributes() -> None:
    found = event(
        b'{"a": 1}',
        ("ce_specversion", b"1.0"),
        ("ce_id", b"A-1"),
        ("ce_source", b"/shop"),
        ("ce_type", b"order.paid"),
        ("content-type", b"application/json"),
    )
    assert (found["id"], found["source"], found["type"]) == ("A-1", "/shop", "order.paid")


@given(st.binary(max_size=100), st.none() | st.binary(max_size=20))
def test_every_record_is_a_valid_event(value: bytes, key: bytes | None) -> None:
    found = event(value, key=key)
    assert {"specversion", "id", "source", "type"} <= found.keys()


@given(st.binary(max_size=50))
def test_any_value_is_an_object_or_none(value: bytes) -> None:
    found = json_object(value)
    assert found is None or isinstance(found, dict)
    assert json_object(b'{"a": {"b": 1}}') == {"a": {"b": 1}}
    assert json_object(b"[1]") is None


def test_redriven_record_names_its_target() -> None:
    assert is_redriven_for([(REDRIVEN_FOR_HEADER, b"big")]) == "big"
    assert is_redriven_for([("other", b"big")]) is None
