"""Nested Arrow columns as JSON text, as Spark's `to_json` writes them.

For rows that reach a sink without having passed its `prepare`, where Spark does the same much faster.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

JSON_OPTIONS = {
    "ignoreNullFields": "false",  # Spark's default drops the key of a null in a map, too
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",  # Spark's default drops the microseconds
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""For Spark's `to_json`, so that nothing is lost."""


def json_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    texts = [None if each is None else _text(each, column.type) for each in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_nested(kind))


def _text(each: Any, kind: pa.DataType) -> str:
    if each is None:
        return "null"
    if pa.types.is_struct(kind):
        return _object([(field.name, each[field.name], field.type) for field in kind])
    if pa.types.is_map(kind):
        return _object([(_name(name, kind.key_type), item, kind.item_type) for name, item in each])
    if pa.types.is_nested(kind):
        return f"[{','.join(_text(item, kind.value_type) for item in each)}]"
    return _leaf(each, kind)


def _object(members: Sequence[tuple[str, Any, pa.DataType]]) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{_text(item, kind)}' for name, item, kind in members)}}}"


def _name(name: Any, kind: pa.DataType) -> str:
    """A key of a map: Spark takes the text of it, whatever it is."""
    text = _leaf(name, kind)
    return json.loads(text) if text.startswith('"') else text


def _leaf(each: Any, kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return format(each, "f")
    if pa.types.is_timestamp(kind):
        text = each.replace(tzinfo=None).isoformat(timespec="microseconds")
        return json.dumps(text + ("Z" if kind.tz else ""))
    if pa.types.is_date(kind):
        return json.dumps(each.isoformat())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return json.dumps(base64.b64encode(each).decode())
    if isinstance(each, float) and not math.isfinite(each):
        return json.dumps({math.inf: "Infinity", -math.inf: "-Infinity"}.get(each, "NaN"))
    if pa.types.is_duration(kind):
        return json.dumps(str(each))
    return json.dumps(each, ensure_ascii=False)


def json_as_text(rows: pa.Table) -> pa.Table:
    """For rows that have not passed `prepare`: those of plain Spark's `writeStream.format("headrace-table")`."""
    for index, name in enumerate(rows.column_names):
        if is_nested(rows[name].type):
            rows = rows.set_column(index, name, json_column(rows[name]))
    return rows
