"""How rows become documents of an index: which column is which field, and the file beside tantivy's own.

Nothing here writes documents or searches; `search.py` and `search_reader.py` do.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import tantivy
from msgspec import Struct
from pyarrow import types as arrow_types

from headrace.files import replace_json
from headrace.pipeline.errors import BadSink

LAYOUT_FILE = "headrace-layout.json"
"""Beside tantivy's files, which do not contain which columns are lists or the key."""

KEY_FIELD = "_headrace_key"
JOB_FIELD = "_headrace_job"
ROW_FIELD = "_headrace_row"
"""The whole row as JSON, for readers. The columns themselves are only indexed: an index knows no null in a list, no
decimals, and no difference between nothing and an empty list."""
FENCE_FIELD = "_headrace_fence"
MARK_FIELD = "_headrace_mark"
FENCE_MARK = "fence"
"""Marks the documents that contain fences."""

TERM_BYTES_MAX = 60_000
"""tantivy drops longer terms silently (its bound is 65,530), and a key must not get lost."""


class FieldKind(StrEnum):
    TEXT = "text"  # words, found one by one
    WORD = "word"  # found as a whole
    INTEGER = "integer"
    FLOAT = "float"
    BOOLEAN = "boolean"
    DATE = "date"
    BYTES = "bytes"  # kept, but not to be found
    JSON = "json"


class Column(Struct, frozen=True, kw_only=True, rename={"is_many": "many", "is_counted": "counted"}):
    name: str
    kind: FieldKind
    is_many: bool = False
    """A list, each of whose values is indexed."""
    type: str = ""
    """A type that JSON lacks, so that a reader restores it; see `_RESTORE`."""
    is_counted: bool = False
    """Whether the hits of a word can be counted. Indexes of older versions of Headrace can't."""


class Layout(Struct, frozen=True, kw_only=True):
    """The columns of an index, and those of its key."""

    key: tuple[str, ...] = ()
    columns: tuple[Column, ...]

    @property
    def text_columns(self) -> list[str]:
        """Where a query looks that names no column."""
        return [each.name for each in self.columns if each.kind in (FieldKind.TEXT, FieldKind.WORD)]

    @property
    def facet_columns(self) -> list[str]:
        """Whose values can be counted."""
        return [each.name for each in self.columns if each.is_counted or each.kind in _COUNTED]


_COUNTED = (FieldKind.INTEGER, FieldKind.FLOAT, FieldKind.BOOLEAN)


def layout_of(stored: pyarrow.Schema, *, key: tuple[str, ...], exact: Sequence[str]) -> Layout:
    columns = [_column(field, is_word=field.name in key or field.name in exact) for field in stored]
    return Layout(columns=tuple(columns), key=key)


def _column(field: pyarrow.Field, *, is_word: bool) -> Column:
    kind = field.type
    is_many = arrow_types.is_list(kind) or arrow_types.is_large_list(kind)
    single = kind.value_type if is_many else kind
    found = _kind(single, is_word=is_word)
    if found is None:
        raise BadSink(
            f"column {field.name!r} of type {field.type} can't be indexed", hint="cast it, or drop it"
        )
    return Column(
        name=field.name,
        kind=found,
        is_many=is_many,
        type=_type(single),
        is_counted=found is FieldKind.WORD,
    )


def _kind(kind: pyarrow.DataType, *, is_word: bool) -> FieldKind | None:
    if arrow_types.is_string(kind) or arrow_types.is_large_string(kind):
        return FieldKind.WORD if is_word else FieldKind.TEXT
    if arrow_types.is_integer(kind) or arrow_types.is_duration(kind):
        return FieldKind.INTEGER
    if arrow_types.is_floating(kind) or arrow_types.is_decimal(kind):
        return FieldKind.FLOAT
    if arrow_types.is_boolean(kind):
        return FieldKind.BOOLEAN
    if arrow_types.is_timestamp(kind) or arrow_types.is_date(kind):
        return FieldKind.DATE
    if arrow_types.is_binary(kind) or arrow_types.is_large_binary(kind):
        return FieldKind.BYTES
    if arrow_types.is_struct(kind) or arrow_types.is_map(kind):
        return FieldKind.JSON
    return None


def _type(kind: pyarrow.DataType) -> str:
    if arrow_types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    names = {
        "decimal": arrow_types.is_decimal,
        "date": arrow_types.is_date,
        "duration": arrow_types.is_duration,
        "binary": lambda each: arrow_types.is_binary(each) or arrow_types.is_large_binary(each),
    }
    return next((name for name, is_it in names.items() if is_it(kind)), "")


def tantivy_schema(layout: Layout) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(KEY_FIELD, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(JOB_FIELD, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(MARK_FIELD, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(ROW_FIELD, stored=True)
    builder.add_bytes_field(FENCE_FIELD, stored=True)
    for column in layout.columns:
        if not tantivy.SchemaBuilder.is_valid_field_name(column.name):
            raise BadSink(
                f"an index can't have a column {column.name!r}", hint="rename it: letters, digits, _ and -"
            )
        _add_field(builder, column)
    return builder.build()


def _add_field(builder: Any, column: Column) -> None:
    match column.kind:
        case FieldKind.TEXT:
            builder.add_text_field(column.name)
        case FieldKind.WORD:
            builder.add_text_field(
                column.name, tokenizer_name="raw", index_option="basic", fast=column.is_counted
            )
        case FieldKind.INTEGER:
            builder.add_integer_field(column.name, indexed=True, fast=True)
        case FieldKind.FLOAT:
            builder.add_float_field(column.name, indexed=True, fast=True)
        case FieldKind.BOOLEAN:
            builder.add_boolean_field(column.name, indexed=True, fast=True)
        case FieldKind.DATE:
            builder.add_date_field(column.name, indexed=True, fast=True)
        case FieldKind.JSON:
            builder.add_json_field(column.name)
        case FieldKind.BYTES:
            pass


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """The same text for the same key, and for no other."""
    return _json([row[name] for name in key])


def document_fields(row: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """The fields of a row's document; a null is a missing field."""
    fields: dict[str, Any] = {}
    for column in layout.columns:
        content = row[column.name]
        if content is None or column.kind is FieldKind.BYTES:
            continue
        if column.is_many:
            fields[column.name] = [_field_value(each, column.kind) for each in content if each is not None]
        else:
            fields[column.name] = _field_value(content, column.kind)
    fields[ROW_FIELD] = _json([row[column.name] for column in layout.columns]).encode()
    if layout.key:
        fields[KEY_FIELD] = key_text(row, layout.key)
    return fields


def row_of_document(fields: Mapping[str, list[Any]], layout: Layout) -> dict[str, Any]:
    """The row again. Inside of structs and maps, times and the like stay text."""
    contents = json.loads(bytes(fields[ROW_FIELD][0]))
    return {
        column.name: _restored(content, column)
        for column, content in zip(layout.columns, contents, strict=True)
    }


def _restored(content: Any, column: Column) -> Any:
    restore = _RESTORE.get(column.type)
    if content is None or restore is None:
        return content
    if column.is_many:
        return [None if each is None else restore(each) for each in content]
    return restore(content)


_RESTORE: dict[str, Callable[[Any], Any]] = {
    "timestamp": datetime.datetime.fromisoformat,
    "timestamp_ntz": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "duration": lambda microseconds: datetime.timedelta(microseconds=microseconds),
    "decimal": decimal.Decimal,
    "binary": base64.b64decode,
}


def _field_value(content: Any, kind: FieldKind) -> Any:
    if kind is FieldKind.FLOAT:
        return float(content)
    if kind is FieldKind.INTEGER and isinstance(content, datetime.timedelta):
        return _without_json(content)
    if kind is FieldKind.DATE and not isinstance(content, datetime.datetime):
        return datetime.datetime(content.year, content.month, content.day, tzinfo=datetime.UTC)
    if kind is FieldKind.JSON:
        return _json(content)
    return content


def _without_json(content: Any) -> Any:
    """What JSON has no type for."""
    if isinstance(content, datetime.datetime) and content.tzinfo is not None:
        return content.astimezone(
            datetime.UTC
        ).isoformat()  # a key stays the same in a session of another time zone
    if isinstance(content, datetime.date):
        return content.isoformat()
    if isinstance(content, datetime.timedelta):
        return content // datetime.timedelta(microseconds=1)
    if isinstance(content, bytes):
        return base64.b64encode(content).decode()
    if isinstance(content, decimal.Decimal):
        return str(content)
    raise TypeError(f"{type(content).__name__} can't be kept in an index")


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_without_json).encode


def read_layout(folder: Path) -> Layout | None:
    try:
        return msgspec.json.decode((folder / LAYOUT_FILE).read_bytes(), type=Layout)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise BadSink(
            f"{folder / LAYOUT_FILE} is damaged", hint="remove the index and build it again"
        ) from error


def write_layout(folder: Path, layout: Layout) -> None:
    """In one step, and before the index itself: an index without its layout could not be read."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_json(folder / LAYOUT_FILE, layout, durable=True)
