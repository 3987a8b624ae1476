"""The Arrow type of an Avro schema, and its values as Arrow.

A union with null is its other branch. One of several is a struct with a field for each branch, of which one is set.
A type within itself has no column type: there, the value is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.registered.avro import branches, decimal_of, has_choices
from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Definition,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
    unqualified,
)

Convert = Callable[[Any], Any]

LOGICAL_TYPES = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""Those that are columns of their own type, besides decimals. Values are numbers in the unit of the type."""

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_INT_BITS = 31


class AvroColumns:
    """`type` is that of a value as it was written; Spark's columns have microseconds instead of milliseconds."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._names_branches = has_choices(schema)
        self.type, self.convert = self._column(schema.root, frozenset())

    def _column(self, part: Type, within: frozenset[str]) -> tuple[pa.DataType, Convert | None]:
        """And how a value of fastavro becomes one of Arrow, if it has to be changed."""
        part = self._resolved(part)
        if isinstance(part, Definition) and part.name in within:
            return pa.string(), _json_text
        match part:
            case Union():
                return self._union(part, within)
            case Array(items):
                kind, convert = self._column(items, within)
                return pa.list_(kind), convert and _each_item(convert)
            case Map(values):
                kind, convert = self._column(values, within)
                return pa.map_(pa.string(), kind), convert and _each_value(convert)
            case Record():
                return self._record(part, within | {part.name})
            case Enum():
                return pa.string(), None
        return self._plain(part), None

    def _plain(self, part: Any) -> pa.DataType:
        if (decimal := decimal_of(part)) is not None:
            return pa.decimal128(*decimal)
        if isinstance(part, Fixed):
            return pa.binary()
        assert isinstance(part, Primitive)
        logical = part.properties.get("logicalType")
        if isinstance(logical, str) and (part.name, logical) in LOGICAL_TYPES:
            return LOGICAL_TYPES[part.name, logical]
        return _PRIMITIVES[part.name]

    def _record(self, record: Record, within: frozenset[str]) -> tuple[pa.DataType, Convert | None]:
        columns = [(each.name, *self._column(each.type, within)) for each in record.fields]
        kind = pa.struct([(name, each) for name, each, _ in columns])
        changed = [(name, convert) for name, _, convert in columns if convert is not None]
        return kind, _each_field(changed) if changed else None

    def _union(self, union: Union, within: frozenset[str]) -> tuple[pa.DataType, Convert | None]:
        found = [self._resolved(each) for each in branches(union)]
        if not found:
            return pa.null(), None
        columns = [self._column(each, within) for each in found]
        if len(found) == 1:
            ((kind, convert),) = columns
            is_named = self._names_branches and isinstance(found[0], Definition)
            return kind, _branch_value(convert) if is_named else convert and _unless_none(convert)
        names = _branch_names(found)
        fields = pa.struct([(name, kind) for name, (kind, _) in zip(names, columns, strict=True)])
        choice = _Choice(found, names, [convert for _, convert in columns])
        return fields, choice

    def _resolved(self, part: Type) -> Type:
        return self._schema.names[part.name] if isinstance(part, Named) else part


class _Choice:
    """The branch of a value of a union, by the pair of a named type, or else by its Python type."""

    def __init__(self, parts: list[Type], names: list[str], converts: list[Convert | None]) -> None:
        self._named = {
            part.name: (name, convert)
            for part, name, convert in zip(parts, names, converts, strict=True)
            if isinstance(part, Definition)
        }
        self._others = {
            part.name if isinstance(part, Primitive) else type(part).__name__: (name, convert)
            for part, name, convert in zip(parts, names, converts, strict=True)
            if not isinstance(part, Definition)
        }

    def __call__(self, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, tuple):
            (name, convert), value = self._named[value[0]], value[1]
        else:
            name, convert = self._others[self._kind(value)]
        return {name: value if convert is None else convert(value)}

    def _kind(self, value: Any) -> str:
        match value:
            case bool():
                return "boolean"
            case int():
                is_int = "long" not in self._others or (
                    "int" in self._others and -(1 << _INT_BITS) <= value < 1 << _INT_BITS
                )
                return "int" if is_int else "long"
            case float():
                return "double" if "double" in self._others else "float"
            case str():
                return "string"
            case bytes() | Decimal():
                return "bytes"
            case list():
                return "Array"
        return "Map"


def _branch_names(parts: list[Type]) -> list[str]:
    names = [_branch_name(each) for each in parts]
    shorter = [unqualified(each) for each in names]
    is_clear = len({each.lower() for each in shorter}) == len(shorter)
    return shorter if is_clear else [each.replace(".", "_") for each in names]


def _branch_name(part: Type) -> str:
    return part.name if isinstance(part, Primitive | Definition) else type(part).__name__.lower()


def _each_item(convert: Convert) -> Convert:
    return lambda items: [convert(each) for each in items]


def _each_value(convert: Convert) -> Convert:
    return lambda pairs: {name: convert(each) for name, each in pairs.items()}


def _each_field(changed: list[tuple[str, Convert]]) -> Convert:
    def convert(record: Any) -> Any:
        for name, each in changed:
            record[name] = each(record[name])
        return record

    return convert


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _branch_value(convert: Convert | None) -> Convert:
    """fastavro gives a pair of name and value where any union of the schema has several branches."""

    def value_of(value: Any) -> Any:
        if isinstance(value, tuple):
            value = value[1]
        return value if value is None or convert is None else convert(value)

    return value_of


def _json_text(value: Any) -> str:
    return json.dumps(_without_names(value), ensure_ascii=False, default=_plain)


def _without_names(value: Any) -> Any:
    match value:
        case tuple():
            return _without_names(value[1])
        case list():
            return [_without_names(each) for each in value]
        case dict():
            return {name: _without_names(each) for name, each in value.items()}
    return value


def _plain(value: Any) -> str:
    """Bytes as Avro's own JSON has them."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
