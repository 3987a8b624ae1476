"""The record of a change: key and value in Debezium's envelope, as JSON.

With `schemas`, each record repeats its schema, as Kafka Connect's JSON converter writes it: sink connectors need that.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.change import Change, Column, Op, Table

_encode = msgspec.json.Encoder().encode


class Record(Struct, frozen=True, kw_only=True):
    key: bytes | None
    value: bytes | None


class Envelope:
    """The records of one capture. `connector` is the kind of database, as in `postgresql`."""

    def __init__(self, capture: str, connector: str, *, schemas: bool = False) -> None:
        self._schemas = schemas
        self._capture = capture
        self._source = {"version": version("headrace"), "connector": connector, "name": capture}

    def records(
        self, change: Change, now_ms: int, order: Mapping[str, Any] | None = None
    ) -> Sequence[Record]:
        """The record of the change, and the tombstone after a delete. `order` is the place in its transaction."""
        key = self._key(change)
        payload = {
            "before": change.before,
            "after": change.after,
            "source": {
                **self._source,
                "ts_ms": change.committed_ms,
                "snapshot": "false",
                **change.source,
            },
            "transaction": order,
            "op": change.op.value,
            "ts_ms": now_ms,
        }
        record = Record(key=key, value=self._wrapped(change.table, payload))
        if change.op is Op.DELETE and key is not None:
            return record, Record(key=key, value=None)
        return (record,)

    def _key(self, change: Change) -> bytes | None:
        row = change.after if change.after is not None else change.before
        if row is None:
            return None
        payload = {name: row[name] for name in change.table.key}
        return _encode(
            {"schema": _key_schema(change.table), "payload": payload} if self._schemas else payload
        )

    def _wrapped(self, table: Table, payload: Mapping[str, Any]) -> bytes:
        if not self._schemas:
            return _encode(payload)
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
            else [{"data_collection": name, "event_count": count} for name, count in counts.items()],
        }
        return Record(key=_encode({"id": id}), value=_encode(value))


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
