"""A row of the outbox to the record of its event: topic, key, value and headers. No I/O.

The value is the payload as it is. A payload that is null is a tombstone.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.change import Column, Row, Table
from headrace.cdc.envelope import Record
from headrace.cdc.errors import BadCapture
from headrace.cdc.outbox.definition import PLACEHOLDER, REQUIRED, Outbox
from headrace.topic_names import InvalidTopicName, check_topic_name

ID_HEADER = "id"
TYPE_HEADER = "eventType"

RESERVED_PREFIXES = ("__", "headrace.")
"""Topics that brokers and captures keep for themselves: an event there would be read as their state."""

MICROSECONDS = "io.debezium.time.MicroTimestamp"
"""The logical type of a timestamp without zone. Other numbers are milliseconds, as Debezium wants them."""


class BadRow(Exception):
    """A row that cannot become a record. The message is the reason."""


class Routed(Struct, frozen=True, kw_only=True):
    topic: str
    record: Record


class Router:
    """The events of one outbox. Topics of the capture itself are not for its events."""

    def __init__(self, capture: str, outbox: Outbox) -> None:
        self._capture = capture
        self._outbox = outbox
        self._table: Table | None = None
        self._columns: dict[str, Column] = {}

    def route(self, table: Table, row: Row) -> Routed:
        """Raises `BadRow`."""
        self._describe(table)
        key = self._bytes(row, "key") if row.get("key") is not None else self._bytes(row, "aggregateid")
        if key is None:
            raise BadRow("column aggregateid is null, so the event has no key")
        headers = [(ID_HEADER, self._bytes(row, "id")), (TYPE_HEADER, self._bytes(row, "type"))]
        record = Record(
            key=key,
            value=self._bytes(row, "payload"),
            headers=(*headers, *self._own_headers(row)),
            timestamp_ms=self._timestamp_ms(row),
        )
        return Routed(topic=self._topic(row), record=record)

    def _describe(self, table: Table) -> None:
        if table is self._table:
            return
        columns = {column.name: column for column in table.columns}
        require_columns(self._outbox, columns)
        if self._outbox.delete and columns["id"].type == "bytes":
            raise BadCapture(
                f"column id of outbox {self._outbox.table} is binary, so its rows cannot be deleted by it",
                hint="use a text, a number or a uuid; or --no-outbox-delete if your program deletes the rows",
            )
        self._table, self._columns = table, columns

    def _topic(self, row: Row) -> str:
        topic = row.get("topic")
        if topic is None:
            topic = PLACEHOLDER.sub(lambda found: _text(row, found[1]), self._outbox.topic)
        try:
            check_topic_name(str(topic))
        except InvalidTopicName as error:
            raise BadRow(str(error)) from error
        is_own = topic == self._capture or topic.startswith(f"{self._capture}.")
        if is_own or topic.startswith(RESERVED_PREFIXES):
            raise BadRow(f"topic {topic} is not for events: captures or brokers write it")
        return str(topic)

    def _bytes(self, row: Row, name: str) -> bytes | None:
        value = row[name]
        if value is None:
            return None
        if isinstance(value, str):
            return base64.b64decode(value) if self._columns[name].type == "bytes" else value.encode()
        return msgspec.json.encode(value)

    def _own_headers(self, row: Row) -> list[tuple[str, bytes | None]]:
        text = row.get("headers")
        if text is None:
            return []
        try:
            found = text if isinstance(text, Mapping) else msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise BadRow(f"column headers is not a JSON object: {error}") from error
        return [(name, _header(value)) for name, value in found.items()]

    def _timestamp_ms(self, row: Row) -> int | None:
        value = row.get("timestamp")
        if value is None:
            return None
        try:
            if isinstance(value, str):
                found = int(datetime.fromisoformat(value).timestamp() * 1_000)
            else:
                is_micros = self._columns["timestamp"].semantic == MICROSECONDS
                found = int(value) // 1_000 if is_micros else int(value)
        except (ValueError, TypeError, OverflowError):
            found = -1
        if found < 0:
            raise BadRow(f"column timestamp has {value!r}, which is no time since 1970")
        return found


def require_columns(outbox: Outbox, names: Mapping[str, object]) -> None:
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise BadCapture(
            f"outbox {outbox.table} has no column {', '.join(missing)}",
            hint="`headrace cdc outbox --for postgresql` shows the statement that creates such a table",
        )


def _text(row: Row, name: str) -> str:
    value = row[name]
    if value is None or value == "":
        raise BadRow(f"column {name} is {'null' if value is None else 'empty'}, so the event has no topic")
    return str(value)


def _header(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
