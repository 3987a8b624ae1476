"""How rows are documents of OpenSearch: mappings, identities, values as JSON and back. No connection here.

The mapping of an index has `_meta` with the columns as Arrow types, so that readers restore them.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.pipeline.errors import BadSink

FENCES = "headrace-fences"
"""An index with a document for each index that Headrace writes."""

ID_BYTES_MAX = 512
"""OpenSearch's bound. A longer key is replaced by a digest of it."""

EXACT_CHARS_MAX = 8_191
"""Longer texts are found by their words only: a term has at most 32,766 bytes."""

_TEXT = {"type": "text", "fields": {"exact": {"type": "keyword", "ignore_above": EXACT_CHARS_MAX}}}
_OPAQUE = {"type": "object", "enabled": False}


def index_body(columns: pa.Schema, key: Sequence[str]) -> dict[str, Any]:
    """Settings and mappings of a new index."""
    meta = {"key": list(key), "columns": base64.b64encode(columns.serialize().to_pybytes()).decode()}
    return {
        "settings": {"number_of_shards": 1, "auto_expand_replicas": "0-1"},
        "mappings": {
            "dynamic": False,
            "_meta": {"headrace": meta},
            "properties": {field.name: _property(field.type) for field in columns},
        },
    }


def columns_of(mapping: Mapping[str, Any]) -> tuple[pa.Schema, tuple[str, ...]]:
    """Columns and key of an index, from its mapping."""
    meta = mapping.get("_meta", {}).get("headrace")
    if meta is None:
        raise BadSink("the index was not created by Headrace", hint="give this one another name")
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(meta["columns"])))
    return schema, tuple(meta["key"])


def exact_field(name: str, kind: pa.DataType) -> str | None:
    """The field that finds and counts the values of a column as a whole; None if there is none."""
    single = kind.value_type if pa.types.is_list(kind) else kind
    if pa.types.is_string(single):
        return f"{name}.exact"
    is_plain = pa.types.is_integer(single) or pa.types.is_floating(single) or pa.types.is_boolean(single)
    return name if is_plain else None


def identity(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """The same text for the same key, and for no other."""
    values = [to_json(row[name]) for name in key]
    is_plain = len(values) == 1 and isinstance(values[0], str) and values[0] and values[0][0] not in "[#"
    text = values[0] if is_plain else json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode()) <= ID_BYTES_MAX:
        return str(text)
    return f"#{hashlib.sha256(text.encode()).hexdigest()}"


def document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: to_json(value) for name, value in row.items() if value is not None}


def row_of(source: Mapping[str, Any], columns: pa.Schema) -> dict[str, Any]:
    return {field.name: _restored(source.get(field.name), field.type) for field in columns}


def to_json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.datetime):
        return (value.astimezone(datetime.UTC) if value.tzinfo else value).isoformat(timespec="microseconds")
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Mapping):
        return {str(name): to_json(each) for name, each in value.items()}
    return [to_json(each) for each in value] if isinstance(value, list) else value


def _restored(value: Any, kind: pa.DataType) -> Any:
    """Inside of structs and maps, times and the like stay text."""
    if value is None:
        return None
    if pa.types.is_list(kind):
        return [_restored(each, kind.value_type) for each in value]
    restore = next((restore for is_kind, restore in _RESTORE if is_kind(kind)), None)
    return value if restore is None else restore(value)


_RESTORE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_floating, float),
    (pa.types.is_decimal, Decimal),
    (pa.types.is_date, datetime.date.fromisoformat),
    (pa.types.is_timestamp, datetime.datetime.fromisoformat),
    (pa.types.is_duration, lambda microseconds: datetime.timedelta(microseconds=microseconds)),
    (pa.types.is_binary, base64.b64decode),
)


def _property(kind: pa.DataType) -> dict[str, Any]:
    single = kind.value_type if pa.types.is_list(kind) else kind
    return next((dict(found) for is_kind, found in _PROPERTIES if is_kind(single)), dict(_OPAQUE))


_PROPERTIES: tuple[tuple[Callable[[pa.DataType], bool], dict[str, Any]], ...] = (
    (pa.types.is_string, _TEXT),
    (pa.types.is_boolean, {"type": "boolean"}),
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_duration(kind), {"type": "long"}),
    # Infinity is no number to OpenSearch: it is stored, and not found by value.
    (
        lambda kind: pa.types.is_floating(kind) or pa.types.is_decimal(kind),
        {"type": "double", "ignore_malformed": True},
    ),
    (lambda kind: pa.types.is_timestamp(kind) or pa.types.is_date(kind), {"type": "date"}),
    (pa.types.is_binary, {"type": "binary"}),
)
