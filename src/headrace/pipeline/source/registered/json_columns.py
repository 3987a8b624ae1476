"""The Arrow type of a JSON Schema, and JSON values as Arrow.

Objects with named properties are structs, and those without are maps. The formats `date-time` and `date` are times,
and base64 is bytes. What has no column type (values of several types, a type within itself) is JSON.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.registered.errors import BadRecord
from headrace.schemas.json_schema.parsing import JsonSchema

Convert = Callable[[Any], Any]
"""From a value of JSON, which is not null, to one of Arrow. BadRecord if it does not fit."""

_LONG_BITS = 63
_QUOTED_CHARACTERS_MAX = 60


class Column(Struct, frozen=True):
    type: pa.DataType
    convert: Convert


class JsonColumns:
    def __init__(self, schema: JsonSchema) -> None:
        column = self._column(schema.contents, schema.resolver, frozenset())
        self.type = column.type
        self.convert = _or_null(column.convert)

    def _column(self, schema: Any, resolver: Any, within: frozenset[int]) -> Column:
        schema, resolver = _followed(schema, resolver)
        if not isinstance(schema, dict) or id(schema) in within:
            return _JSON
        within |= {id(schema)}
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices and not {"type", "properties"} & schema.keys():
            others = [each for each in choices if not _is_null(_followed(each, resolver)[0])]
            return self._column(others[0], resolver, within) if len(others) == 1 else _JSON
        match _type_of(schema):
            case "object":
                return self._object(schema, resolver, within)
            case "array":
                return self._array(schema, resolver, within)
            case "string":
                return _text(schema)
            case "integer":
                return Column(pa.int64(), _integer)
            case "number":
                return Column(pa.float64(), _number)
            case "boolean":
                return Column(pa.bool_(), _boolean)
            case "null":
                return Column(pa.null(), _nothing)
        return _JSON

    def _object(self, schema: dict[str, Any], resolver: Any, within: frozenset[int]) -> Column:
        properties = schema.get("properties")
        if not properties:
            others = schema.get("additionalProperties", True)
            value = self._column(others, resolver, within) if isinstance(others, dict) else _JSON
            return Column(pa.map_(pa.string(), value.type), _map(_or_null(value.convert)))
        columns = {name: self._column(each, resolver, within) for name, each in properties.items()}
        kind = pa.struct([(name, each.type) for name, each in columns.items()])
        return Column(kind, _object({name: _or_null(each.convert) for name, each in columns.items()}))

    def _array(self, schema: dict[str, Any], resolver: Any, within: frozenset[int]) -> Column:
        items = schema.get("items")
        item = self._column(items, resolver, within) if isinstance(items, dict) else _JSON
        return Column(pa.list_(item.type), _array(_or_null(item.convert)))


def _followed(schema: Any, resolver: Any) -> tuple[Any, Any]:
    """What a reference refers to. One to itself refers to nothing."""
    seen = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and id(schema) not in seen:
        seen.add(id(schema))
        found = resolver.lookup(schema["$ref"])
        schema, resolver = found.contents, found.resolver
    return schema, resolver


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"


def _type_of(schema: dict[str, Any]) -> str | None:
    """The only type besides null."""
    given = schema.get("type")
    if given is None and "properties" in schema:
        return "object"
    if isinstance(given, list):
        others = [each for each in given if each != "null"]
        given = others[0] if len(others) == 1 else None
    if (
        given is None
        and "enum" in schema
        and all(each is None or isinstance(each, str) for each in schema["enum"])
    ):
        return "string"
    return given


def _text(schema: dict[str, Any]) -> Column:
    if schema.get("format") == "date-time":
        return Column(pa.timestamp("us", "UTC"), _time)
    if schema.get("format") == "date":
        return Column(pa.date32(), _date)
    if schema.get("contentEncoding") == "base64":
        return Column(pa.binary(), _bytes)
    return Column(pa.string(), _string)


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _object(converts: dict[str, Convert]) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(value, "an object")
        found = {}
        for name, each in converts.items():
            given = value.get(name)
            if given is not None:
                try:
                    found[name] = each(given)
                except BadRecord as error:
                    raise BadRecord(f"{name}: {error}") from None
        return found

    return convert


def _map(each: Convert) -> Convert:
    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(value, "an object")
        return {name: each(one) for name, one in value.items()}

    return convert


def _array(each: Convert) -> Convert:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(value, "an array")
        return [each(one) for one in value]

    return convert


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _misfit(value, "a string")
    return value


def _integer(value: Any) -> int:
    """1.0 is an integer in JSON Schema."""
    is_whole = isinstance(value, float) and value.is_integer()
    if (type(value) is int or is_whole) and -(1 << _LONG_BITS) <= value < 1 << _LONG_BITS:
        return int(value)
    raise _misfit(value, "an integer of 64 bits")


def _number(value: Any) -> float:
    if type(value) in (int, float) and math.isfinite(value):
        return float(value)
    raise _misfit(value, "a number")


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit(value, "a boolean")
    return value


def _nothing(value: Any) -> None:
    raise _misfit(value, "null")


def _time(value: Any) -> datetime:
    """Without an offset, in UTC."""
    try:
        time = datetime.fromisoformat(_string(value))
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _misfit(value, "a date-time") from None


def _date(value: Any) -> date:
    try:
        return date.fromisoformat(_string(value))
    except ValueError:
        raise _misfit(value, "a date") from None


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except binascii.Error:
        raise _misfit(value, "base64") from None


def _json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _misfit(value: Any, wanted: str) -> BadRecord:
    shown = _json_text(value)
    if len(shown) > _QUOTED_CHARACTERS_MAX:
        shown = shown[: _QUOTED_CHARACTERS_MAX - 1] + "…"
    return BadRecord(f"{shown} is not {wanted}")


_JSON = Column(pa.string(), _json_text)
