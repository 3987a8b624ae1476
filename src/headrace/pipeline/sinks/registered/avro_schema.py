"""The Avro schema of rows. Every field may be null, with null as its default: columns may be added and removed later,
and readers with the schema before and after understand each other."""

from __future__ import annotations

import re
from typing import Any

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
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from headrace.pipeline.errors import BadSink

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_TYPES: dict[type[DataType], Any] = {
    BinaryType: "bytes",
    BooleanType: "boolean",
    ByteType: "int",
    DateType: {"type": "int", "logicalType": "date"},
    DayTimeIntervalType: "long",
    DoubleType: "double",
    FloatType: "float",
    IntegerType: "int",
    LongType: "long",
    ShortType: "int",
    StringType: "string",
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
}


def avro_schema(row: StructType, name: str) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [
            {
                "name": checked_name(each.name),
                "type": _or_null(each.dataType, f"{name}_{each.name}"),
                "default": None,
            }
            for each in row.fields
        ],
    }


def record_name(topic: str) -> str:
    """`shop.orders-2` -> `shop_orders_2`."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    return name if NAME.fullmatch(name) else f"_{name}"


def checked_name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadSink(
            f"a field of this schema can't be called {name!r}",
            hint="rename the column: letters, digits and _, and no digit first",
        )
    return name


def no_type(kind: DataType, path: str, format: str) -> BadSink:
    return BadSink(
        f"{path}: {format} has no type for {kind.simpleString()}",
        hint="convert the column, such as to STRING",
    )


def _or_null(kind: DataType, name: str) -> Any:
    found = _type(kind, name)
    return found if found == "null" else ["null", found]


def _type(kind: DataType, name: str) -> Any:
    match kind:
        case StructType():
            return avro_schema(kind, name)
        case ArrayType():
            return {"type": "array", "items": _or_null(kind.elementType, name)}
        case MapType() if isinstance(kind.keyType, StringType):
            return {"type": "map", "values": _or_null(kind.valueType, name)}
        case DecimalType():
            return {
                "type": "bytes",
                "logicalType": "decimal",
                "precision": kind.precision,
                "scale": kind.scale,
            }
        case NullType():
            return "null"
    for known, found in _TYPES.items():
        if isinstance(kind, known):
            return found
    raise no_type(kind, name, "Avro")
