"""The JSON Schema of rows, as Spark's `to_json` writes them. Every property may be null and nothing is required, and
other properties are not allowed: a column that is added later is a change that readers of today accept."""

from __future__ import annotations

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
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

from headrace.pipeline.sinks.registered.avro_schema import no_type

DIALECT = "http://json-schema.org/draft-07/schema#"

_NULL = {"type": "null"}
_TYPES: tuple[tuple[tuple[type[DataType], ...], dict[str, str]], ...] = (
    ((BinaryType,), {"type": "string", "contentEncoding": "base64"}),
    ((BooleanType,), {"type": "boolean"}),
    ((ByteType, ShortType, IntegerType, LongType), {"type": "integer"}),
    ((FloatType, DoubleType, DecimalType), {"type": "number"}),
    ((TimestampType,), {"type": "string", "format": "date-time"}),
    ((DateType,), {"type": "string", "format": "date"}),
    ((StringType, TimestampNTZType), {"type": "string"}),
)


def json_schema(row: StructType, name: str) -> dict[str, Any]:
    return {"$schema": DIALECT, "title": name, **_object(row, name)}


def _object(row: StructType, path: str) -> dict[str, Any]:
    properties = {each.name: _or_null(each.dataType, f"{path}.{each.name}") for each in row.fields}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _or_null(kind: DataType, path: str) -> dict[str, Any]:
    if isinstance(kind, NullType):
        return _NULL
    return {"oneOf": [_NULL, _type(kind, path)]}


def _type(kind: DataType, path: str) -> dict[str, Any]:
    match kind:
        case StructType():
            return _object(kind, path)
        case ArrayType():
            return {"type": "array", "items": _or_null(kind.elementType, path)}
        case MapType():
            return {"type": "object", "additionalProperties": _or_null(kind.valueType, path)}
    for types, found in _TYPES:
        if isinstance(kind, types):
            return found
    raise no_type(kind, path, "JSON Schema")
