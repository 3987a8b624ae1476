"""The record of a change: key and value in Debezium's envelope, as JSON.

With `schemas`, each record repeats its schema, as Kafka Connect's JSON converter writes it: sink connectors need that.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.change import Change, Column, Op, ReadRows, Row, RowGroup, Table

_encode = msgspec.json.Encoder().encode
_MARK = b"\0"
"""a byte that no JSON has"""
_MARKED = msgspec.Raw(_MARK)


class Record(Struct, frozen=True):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    """of a record with headers; the time of the producer if not set"""


class Layout(Struct, frozen=True, kw_only=True):
    """The texts before, between and after the values of a row, in the key and in the value of its record."""

    key: tuple[bytes, ...]
    value: tuple[bytes, ...]
    key_columns: tuple[int, ...]
    """indexes of the columns that the key has"""


class Envelope:
    """The records of one capture. `connector` is the kind of database, as in `postgresql`."""

    def __init__(self, capture: str, connector: str, *, schemas: bool = False) -> None:
        self._schemas = schemas
        self._capture = capture
        self._source = {
            "version": version("headrace"),
            "connector": connector,
            "name": capture,
            "ts_ms": 0,
            "snapshot": "false",
        }

    def records(
        self, change: Change, now_ms: int, order: Mapping[str, Any] | None = None
    ) -> Sequence[Record]:
        """The record of the change, and the tombstone after a delete. `order` is the place in its transaction."""
        op, before, after = change.op, change.before, change.after
        key = self._key(change.table, before if after is None else after)
        source = {**self._source, **change.source}
        source["ts_ms"] = change.committed_ms
        payload = {
            "before": before,
            "after": after,
            "source": source,
            "transaction": order,
            "op": op,
            "ts_ms": now_ms,
        }
        record = Record(
            key, _encode(payload) if not self._schemas else self._with_schema(change.table, payload)
        )
        if op is Op.DELETE and key is not None:
            return record, Record(key, None)
        return (record,)

    def layout(self, rows: ReadRows, now_ms: int) -> Layout:
        """What stands around the values of all these rows: the record of a row with a mark for each value shows it."""
        template = Change(
            table=rows.table,
            op=Op.READ,
            after=_marked(column.name for column in rows.table.columns),
            committed_ms=rows.committed_ms,
            source=rows.source,
            position=None,
        )
        return self._layout(template, now_ms, None)

    def layout_of_changes(self, group: RowGroup, numbers: Iterable[str], now_ms: int) -> Layout:
        """The values are those of the rows before and after, then the time of the commit, the `numbers` of the source,
        and the place in the transaction: its id, and two numbers."""
        template = Change(
            table=group.table,
            op=group.op,
            before=None if group.before is None else _marked(group.before),
            after=None if group.after is None else _marked(group.after),
            committed_ms=_MARKED,  # type: ignore[arg-type]
            source={**group.source, **_marked(numbers)},
            position=None,
        )
        place = {"id": msgspec.Raw(b'"\0"'), **_marked(("total_order", "data_collection_order"))}
        return self._layout(template, now_ms, place)

    def _layout(self, template: Change, now_ms: int, place: Mapping[str, Any] | None) -> Layout:
        record = self.records(template, now_ms, place)[0]
        assert record.key is not None
        assert record.value is not None
        names = list(template.before or ()) if template.after is None else list(template.after)
        skipped = len(template.before) if template.before is not None and template.after is not None else 0
        return Layout(
            key=tuple(record.key.split(_MARK)),
            value=tuple(record.value.split(_MARK)),
            key_columns=tuple(skipped + names.index(name) for name in template.table.key),
        )

    def _key(self, table: Table, row: Row | None) -> bytes | None:
        if row is None:
            return None
        payload = {name: row[name] for name in table.key}
        return _encode({"schema": _key_schema(table), "payload": payload} if self._schemas else payload)

    def _with_schema(self, table: Table, payload: Mapping[str, Any]) -> bytes:
        return _encode({"schema": _value_schema(self._capture, table), "payload": payload})

    def transaction(
        self, status: str, id: str, ts_ms: int, counts: Mapping[str, int] | None = None
    ) -> Record:
        """The begin or the end of a transaction, for the topic of transactions."""
        value = {
            "status": status,
            "id": id,
            "ts_ms": ts_ms,
            "event_count": None if counts is None else sum(counts.values()),
            "data_collections": None
            if counts is None
            else [{"data_collection": name, "event_count": count} for name, count in sorted(counts.items())],
        }
        return Record(key=_encode({"id": id}), value=_encode(value))


def _marked(names: Iterable[str]) -> dict[str, msgspec.Raw]:
    return dict.fromkeys(names, _MARKED)


def _column_schema(column: Column) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "string" if column.type == "any" else column.type,
        "optional": column.optional,
        "field": column.name,
    }
    if column.semantic is not None:
        schema |= {"name": column.semantic, "version": 1}
    if column.items is not None:
        schema["items"] = {"type": column.items, "optional": True}
    return schema


@functools.lru_cache(maxsize=1_000)
def _key_schema(table: Table) -> dict[str, Any]:
    fields = [_column_schema(column) for column in table.columns if column.name in table.key]
    return {"type": "struct", "optional": False, "name": f"{table.name}.Key", "fields": fields}


@functools.lru_cache(maxsize=1_000)
def _value_schema(capture: str, table: Table) -> dict[str, Any]:
    row = {
        "type": "struct",
        "optional": True,
        "name": f"{capture}.{table.name}.Value",
        "fields": [_column_schema(column) for column in table.columns],
    }
    source = {
        "type": "struct",
        "optional": False,
        "field": "source",
        "name": "io.debezium.connector.Source",
        "fields": [
            {"type": "string", "optional": False, "field": "connector"},
            {"type": "string", "optional": False, "field": "name"},
            {"type": "int64", "optional": False, "field": "ts_ms"},
        ],
    }
    return {
        "type": "struct",
        "optional": False,
        "name": f"{capture}.{table.name}.Envelope",
        "fields": [
            {**row, "field": "before"},
            {**row, "field": "after"},
            source,
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
    }
