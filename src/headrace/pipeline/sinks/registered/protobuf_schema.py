"""The Protobuf schema of rows: a message with an optional field for each column.

A field keeps the number that it has in the latest schema of the subject, and the numbers of fields that are no longer
there are reserved: the order of columns does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from msgspec import Struct
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.registered.avro_schema import checked_name, no_type

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_TYPES: tuple[tuple[tuple[type[DataType], ...], str], ...] = (
    ((BinaryType,), "bytes"),
    ((BooleanType,), "bool"),
    ((ByteType, ShortType, IntegerType), "int32"),
    ((LongType,), "int64"),
    ((FloatType,), "float"),
    ((DoubleType,), "double"),
    # Protobuf has no decimals, dates and local times of its own: their text.
    ((StringType, DecimalType, DateType, TimestampNTZType), "string"),
    ((TimestampType,), _TIMESTAMP),
    ((DayTimeIntervalType,), _DURATION),
)
_MAP_KEYS = (StringType, LongType, IntegerType, ShortType, ByteType, BooleanType)
_RESERVED_BY_PROTOBUF = range(19_000, 20_000)


class Numbers(Struct, frozen=True):
    """Of the fields of a message, by name; and its nested messages."""

    fields: Mapping[str, int] = {}
    reserved: tuple[int, ...] = ()
    nested: Mapping[str, Numbers] = {}


def numbers_in(file: FileDescriptorProto, name: str) -> Numbers:
    """Of the message with this name, if the file has it."""
    return next((_numbers(each) for each in file.message_type if each.name == name), Numbers())


def protobuf_schema(row: StructType, name: str, before: Numbers) -> str:
    lines = list(_message(row, name, before))
    text = "\n".join(lines)
    imports = [
        f'import "google/protobuf/{path}.proto";'
        for path, kind in (("duration", _DURATION), ("timestamp", _TIMESTAMP))
        if kind in text
    ]
    return "\n".join(['syntax = "proto3";', *imports, *lines, ""])


def nested_name(field: str) -> str:
    """`shipping_address` -> `ShippingAddress`."""
    return "".join(each[:1].upper() + each[1:] for each in field.split("_")) or "Nested"


def _numbers(message: DescriptorProto) -> Numbers:
    ranges = [range(each.start, each.end) for each in message.reserved_range]
    return Numbers(
        {each.name: each.number for each in message.field},
        tuple(number for each in ranges for number in each),
        {each.name: _numbers(each) for each in message.nested_type},
    )


def _message(row: StructType, name: str, before: Numbers) -> Iterator[str]:
    yield f"message {name} {{"
    nested: dict[str, StructType] = {}
    free = _free_numbers(before)
    for each in row.fields:
        number = before.fields.get(checked_name(each.name)) or next(free)
        label, kind = _field(each.dataType, each.name, nested)
        yield f"  {label}{kind} {each.name} = {number};"
    gone = [number for field, number in before.fields.items() if field not in row.names]
    if reserved := sorted({*before.reserved, *gone}):
        yield f"  reserved {', '.join(map(str, reserved))};"
    for inner, part in nested.items():
        for line in _message(part, inner, before.nested.get(inner, Numbers())):
            yield f"  {line}"
    yield "}"


def _free_numbers(before: Numbers) -> Iterator[int]:
    number = max([*before.fields.values(), *before.reserved], default=0)
    while True:
        number += 1
        if number not in _RESERVED_BY_PROTOBUF:
            yield number


def _field(kind: DataType, name: str, nested: dict[str, StructType]) -> tuple[str, str]:
    match kind:
        case ArrayType():
            return "repeated ", _type(kind.elementType, name, nested)
        case MapType() if isinstance(kind.keyType, _MAP_KEYS):
            key, value = (_type(each, name, nested) for each in (kind.keyType, kind.valueType))
            return "", f"map<{key}, {value}>"
    return "optional ", _type(kind, name, nested)


def _type(kind: DataType, name: str, nested: dict[str, StructType]) -> str:
    if isinstance(kind, StructType):
        inner = nested_name(name)
        if inner in nested:
            raise BadSink(f"two columns need a message {inner}", hint=f"rename the column {name}")
        nested[inner] = kind
        return inner
    for types, found in _TYPES:
        if isinstance(kind, types):
            return found
    raise no_type(kind, name, "Protobuf")
