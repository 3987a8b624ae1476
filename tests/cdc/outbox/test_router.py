"""A row of the outbox becomes a record."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from headrace.cdc.change import Column, ColumnType, Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.outbox.router import MICROSECONDS, BadRow, Routed, Router

ROW = {"id": "u-1", "aggregatetype": "order", "aggregateid": "7", "type": "paid", "payload": '{"a": 1}'}


def table(row: dict[str, Any], **types: ColumnType) -> Table:
    columns = tuple(
        Column(
            name=name,
            type=types.get(name, "string"),
            semantic=MICROSECONDS if types.get(name) == "int64" and name == "timestamp" else None,
        )
        for name in row
    )
    return Table(path=("outbox",), columns=columns, key=("id",))


def routed(
    changes: dict[str, Any], *, topic: str = "outbox.event.{aggregatetype}", **types: ColumnType
) -> Routed:
    row = {**ROW, **changes}
    return Router("shop", Outbox(table="outbox", topic=topic)).route(table(row, **types), row)


def test_payload_is_the_value_as_it_is() -> None:
    found = routed({})
    assert found.topic == "outbox.event.order"
    assert (found.record.key, found.record.value) == (b"7", b'{"a": 1}')
    assert found.record.headers == (("id", b"u-1"), ("eventType", b"paid"))
    assert found.record.timestamp_ms is None
    assert routed({"payload": None}).record.value is None
    content = base64.b64encode(b"\x00\xff").decode()
    assert routed({"payload": content}, payload="bytes").record.value == b"\x00\xff"
    assert routed({"id": 5, "aggregateid": 7}, id="int64").record.key == b"7"


def test_optional_columns_set_topic_key_headers_and_time() -> None:
    found = routed(
        {"topic": "audit", "key": "k", "headers": '{"trace": "1", "n": 2, "x": null}', "timestamp": 5}
    )
    assert (found.topic, found.record.key, found.record.timestamp_ms) == ("audit", b"k", 5)
    assert found.record.headers[2:] == (("trace", b"1"), ("n", b"2"), ("x", None))
    unset = routed({"topic": None, "key": None, "headers": None, "timestamp": None})
    assert (unset.topic, unset.record.key, unset.record.timestamp_ms) == ("outbox.event.order", b"7", None)
    assert routed({"timestamp": 5_000}, timestamp="int64").record.timestamp_ms == 5
    assert routed({"timestamp": "1970-01-01T00:00:02Z"}).record.timestamp_ms == 2_000


def test_pattern_names_columns_of_the_row() -> None:
    assert routed({}, topic="{aggregatetype}.{type}").topic == "order.paid"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aggregatetype": None}, "aggregatetype is null"),
        ({"aggregateid": None}, "aggregateid is null"),
        ({"aggregatetype": ""}, "aggregatetype is empty"),
        ({"aggregatetype": "x" * 300}, "characters long"),
        ({"aggregatetype": "a b"}, "can't be a topic's name"),
        ({"topic": "shop.public.users"}, "not for events"),
        ({"topic": "shop"}, "not for events"),
        ({"topic": "headrace.cdc.shop"}, "not for events"),
        ({"topic": "__consumer_offsets"}, "not for events"),
        ({"headers": "[1]"}, "headers is not a JSON object"),
        ({"headers": "{"}, "headers is not a JSON object"),
        ({"timestamp": "soon"}, "is no time"),
        ({"timestamp": -1}, "is no time"),
    ],
)
def test_row_that_breaks_a_rule_is_rejected_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadRow, match=reason):
        routed(changes)


def test_table_without_a_column_of_the_outbox_is_rejected() -> None:
    row = {name: value for name, value in ROW.items() if name not in ("type", "payload")}
    with pytest.raises(BadCapture, match="has no column type, payload") as rejected:
        Router("shop", Outbox(table="outbox")).route(table(row), row)
    assert "headrace cdc outbox" in rejected.value.hint


def test_binary_id_is_rejected_if_rows_are_deleted_by_it() -> None:
    with pytest.raises(BadCapture, match="binary") as rejected:
        routed({}, id="bytes")
    assert "--no-outbox-delete" in rejected.value.hint
