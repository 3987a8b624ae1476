"""Avro values: bytes of a writer's schema, resolved to a reader's schema by fastavro.

Values are what the columns of a job take without a conversion: of the logical types only decimals are converted, and
the others stay numbers and texts. Value and name of a branch are a pair where a union needs the name to be understood.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
from msgspec import UNSET

from headrace.registered.errors import BadRecord
from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Definition,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)

DECIMAL_DIGITS_MAX = 38
"""Of columns, in Spark and in Arrow. A longer decimal stays bytes."""

Decode = Callable[[bytes], Any]
"""From the bytes after the id of a schema to a value. BadRecord if they are not of the schema."""


def decoder(writer: AvroSchema, reader: AvroSchema) -> Decode:
    """For the records of one writer's schema. BadRecord if no record of it can be read with the reader's."""
    names_branches = has_choices(reader)
    written = fastavro.parse_schema(as_json(writer))
    expected: Any = fastavro.parse_schema(as_json(reader))
    _set_defaults(expected, _defaults(reader, names_branches=names_branches))
    same = expected if as_json(writer) != as_json(reader) else None

    def decode(body: bytes) -> Any:
        try:
            return fastavro.schemaless_reader(
                io.BytesIO(body), written, same, return_named_type=names_branches
            )
        except Exception as error:  # damaged bytes raise almost anything
            raise BadRecord(f"not Avro of its schema: {_in_words(error)}") from error

    return decode


def has_choices(schema: AvroSchema) -> bool:
    """Whether a union has several branches besides null."""
    return any(isinstance(each, Union) and len(branches(each)) > 1 for each in parts(schema))


def branches(union: Union) -> list[Type]:
    """Without null."""
    return [each for each in union.branches if not (isinstance(each, Primitive) and each.name == "null")]


def parts(schema: AvroSchema) -> Iterator[Type]:
    """All types of a schema, each definition once."""
    pending, seen = [schema.root], set()
    while pending:
        part = pending.pop()
        if isinstance(part, Named):
            part = schema.names[part.name]
        if isinstance(part, Definition):
            if part.name in seen:
                continue
            seen.add(part.name)
        yield part
        pending += _children(part)


def decimal_of(part: Type) -> tuple[int, int] | None:
    """Precision and scale of a decimal. One that is not valid is what it is stored as, as the specification wants."""
    if not (isinstance(part, Fixed) or (isinstance(part, Primitive) and part.name == "bytes")):
        return None
    if part.properties.get("logicalType") != "decimal":
        return None
    precision, scale = part.properties.get("precision"), part.properties.get("scale", 0)
    if not (type(precision) is int and type(scale) is int and 0 <= scale <= precision):
        return None
    return (precision, scale) if 0 < precision <= DECIMAL_DIGITS_MAX else None


def as_json(schema: AvroSchema, *, logical_types: Iterable[str] = ()) -> Any:
    """The schema without references to others, and of the logical types only decimals and these."""
    return _Writing(schema, frozenset(logical_types)).value(schema.root)


class _Writing:
    def __init__(self, schema: AvroSchema, logical_types: frozenset[str]) -> None:
        self._schema = schema
        self._logical_types = logical_types
        self._written: set[str] = set()

    def value(self, part: Type) -> Any:
        if isinstance(part, Named):
            part = self._schema.names[part.name]
        match part:
            case Union(union):
                return [self.value(each) for each in union]
            case Primitive(name):
                return {"type": name, **logical} if (logical := self._logical(part)) else name
            case Array(items):
                return {"type": "array", "items": self.value(items)}
            case Map(values):
                return {"type": "map", "values": self.value(values)}
        assert isinstance(part, Definition)
        if part.name in self._written:
            return part.name
        self._written.add(part.name)
        head = {"name": part.name} | ({"aliases": list(part.aliases)} if part.aliases else {})
        match part:
            case Record():
                return {"type": "record", **head, "fields": [self._field(each) for each in part.fields]}
            case Enum():
                default = {} if part.default is None else {"default": part.default}
                return {"type": "enum", **head, "symbols": list(part.symbols), **default}
        return {"type": "fixed", **head, "size": part.size, **self._logical(part)}

    def _field(self, field: Field) -> dict[str, Any]:
        default = {} if field.default is UNSET else {"default": field.default}
        aliases = {"aliases": list(field.aliases)} if field.aliases else {}
        return {"name": field.name, "type": self.value(field.type), **aliases, **default}

    def _logical(self, part: Primitive | Fixed) -> dict[str, Any]:
        if (decimal := decimal_of(part)) is not None:
            return {"logicalType": "decimal", "precision": decimal[0], "scale": decimal[1]}
        name = part.properties.get("logicalType")
        return {"logicalType": name} if name in self._logical_types else {}


def _children(part: Type) -> list[Type]:
    match part:
        case Union(union):
            return list(union)
        case Array(items):
            return [items]
        case Map(values):
            return [values]
        case Record():
            return [each.type for each in part.fields]
    return []


def _defaults(schema: AvroSchema, *, names_branches: bool) -> dict[tuple[str, str], Any]:
    """The values of defaults, by record and field. fastavro takes the JSON of a default for its value."""

    def value(part: Type, given: Any) -> Any:
        if isinstance(part, Named):
            part = schema.names[part.name]
        match part:
            case Union(union):
                first = schema.names[union[0].name] if isinstance(union[0], Named) else union[0]
                found = value(first, given)
                return (first.name, found) if names_branches and isinstance(first, Definition) else found
            case Array(items):
                return [value(items, each) for each in given]
            case Map(values):
                return {name: value(values, each) for name, each in given.items()}
            case Record():
                return {
                    each.name: value(each.type, given.get(each.name, each.default)) for each in part.fields
                }
            case Primitive("bytes") | Fixed():
                data = str(given).encode("latin-1")
                decimal = decimal_of(part)
                return (
                    data
                    if decimal is None
                    else Decimal(int.from_bytes(data, signed=True)).scaleb(-decimal[1])
                )
            case Primitive("float" | "double"):
                return float(given)
        return given

    records = [each for each in parts(schema) if isinstance(each, Record)]
    return {
        (record.name, field.name): value(field.type, field.default)
        for record in records
        for field in record.fields
        if field.default is not UNSET
    }


def _set_defaults(parsed: Any, defaults: dict[tuple[str, str], Any]) -> None:
    pending, seen = [parsed], set()
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict) and id(part) not in seen:
            seen.add(id(part))
            for field in part.get("fields", ()):
                if (part["name"], field["name"]) in defaults:
                    field["default"] = defaults[part["name"], field["name"]]
                pending.append(field["type"])
            pending += [part[each] for each in ("type", "items", "values") if each in part]
            pending += part.get("__named_schemas", {}).values()


def _in_words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text or {"EOFError": "it ends too early"}.get(type(error).__name__, type(error).__name__)
