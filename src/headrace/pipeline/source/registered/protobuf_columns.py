"""The Arrow type of a Protobuf message, and messages as Arrow: column by column, because that is fast.

A field that may be absent is null if it is. Google's wrappers are the type that they wrap, `Timestamp` and `Duration`
are times. What has no columns (`Struct`, `Any`, a message within itself) is JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor

_SCALARS = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
}
_GOOGLE = "google.protobuf."
_WRAPPERS = frozenset(
    f"{_GOOGLE}{each}Value"
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_AS_JSON = frozenset(f"{_GOOGLE}{each}" for each in ("Any", "FieldMask", "ListValue", "Struct", "Value"))

ToArray = Callable[[Sequence[Any]], pa.Array]
"""Values, of which some are None."""


class Column:
    """The type of a value, and values as an array."""

    def __init__(self, type: pa.DataType, to_array: ToArray | None = None) -> None:
        self.type = type
        self.to_array: ToArray = to_array or (lambda values: pa.array(values, type))


def message_column(descriptor: Any, within: frozenset[str] = frozenset()) -> Column:
    name = descriptor.full_name
    if name in _AS_JSON or name in within:
        return Column(pa.string(), lambda messages: pa.array(map(_json_text, messages), pa.string()))
    if name == f"{_GOOGLE}Timestamp":
        return Column(pa.timestamp("us", "UTC"), lambda each: _times(each, pa.timestamp("us", "UTC")))
    if name == f"{_GOOGLE}Duration":
        return Column(pa.duration("us"), lambda each: _times(each, pa.duration("us")))
    if name in _WRAPPERS:
        scalar = _scalar(descriptor.fields_by_name["value"])
        return Column(
            scalar.type, lambda each: scalar.to_array([None if one is None else one.value for one in each])
        )
    names = [each.name for each in descriptor.fields]
    columns = [_field_column(each, within | {name}) for each in descriptor.fields]
    kind = pa.struct([(each, column.type) for each, column in zip(names, columns, strict=True)])

    def to_array(messages: Sequence[Any]) -> pa.Array:
        is_null = pa.array([each is None for each in messages], pa.bool_())
        if not columns:
            return pa.array([None if each is None else {} for each in messages], kind)
        arrays = [column.to_array(messages) for column in columns]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=is_null)

    return Column(kind, to_array)


def _field_column(field: Any, within: frozenset[str]) -> Column:
    """From messages that have the field to its values."""
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map_column(field, within)
    single = _value_column(field, within)
    if field.is_repeated:
        return Column(
            pa.list_(single.type),
            lambda messages: _lists(
                [None if each is None else getattr(each, name) for each in messages], single
            ),
        )
    if field.has_presence and not (field.has_default_value and field.message_type is None):
        return Column(
            single.type,
            lambda messages: single.to_array(
                [
                    None if each is None or not each.HasField(name) else getattr(each, name)
                    for each in messages
                ]
            ),
        )
    return Column(
        single.type,
        lambda messages: single.to_array(
            [None if each is None else getattr(each, name) for each in messages]
        ),
    )


def _value_column(field: Any, within: frozenset[str]) -> Column:
    if field.message_type is not None:
        return message_column(field.message_type, within)
    return _scalar(field)


def _scalar(field: Any) -> Column:
    if field.enum_type is not None:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return Column(
            pa.string(),
            lambda numbers: pa.array(
                [None if each is None else names.get(each, str(each)) for each in numbers], pa.string()
            ),
        )
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return Column(pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string())
    return Column(_SCALARS[field.cpp_type])


def _map_column(field: Any, within: frozenset[str]) -> Column:
    name = field.name
    key = _scalar(field.message_type.fields_by_name["key"])
    value = _value_column(field.message_type.fields_by_name["value"], within)
    kind = pa.map_(key.type, value.type)

    def to_array(messages: Sequence[Any]) -> pa.Array:
        maps = [None if each is None else dict(getattr(each, name)) for each in messages]
        entries = [pair for each in maps if each for pair in each.items()]
        return pa.MapArray.from_arrays(
            _offsets(maps),
            key.to_array([each for each, _ in entries]),
            value.to_array([each for _, each in entries]),
            type=kind,
        )

    return Column(kind, to_array)


def _lists(values: list[Any], item: Column) -> pa.Array:
    items = [each for one in values if one is not None for each in one]
    return pa.ListArray.from_arrays(_offsets(values), item.to_array(items), type=pa.list_(item.type))


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Of the items of each value. A null is one where its item begins."""
    offsets: list[int | None] = []
    end = 0
    for each in values:
        offsets.append(None if each is None else end)
        end += 0 if each is None else len(each)
    return pa.array([*offsets, end], pa.int32())


def _times(messages: Sequence[Any], kind: pa.DataType) -> pa.Array:
    microseconds = [
        None if each is None else each.seconds * 1_000_000 + _microseconds(each.nanos) for each in messages
    ]
    return pa.array(microseconds, kind)


def _microseconds(nanos: int) -> int:
    """Toward zero: those of a negative duration are negative."""
    return int(nanos / 1000)


def _json_text(message: Any) -> str | None:
    return None if message is None else json_format.MessageToJson(message, indent=None)
