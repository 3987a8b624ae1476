"""The fields of a schema, as people read them. Bounded: a schema may be recursive, and may have very many fields."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from msgspec import UNSET

from headrace.gateway.catalog.model import Field
from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)
from headrace.schemas.definition import SchemaType
from headrace.schemas.json_schema.parsing import JsonSchema
from headrace.schemas.parsing import Parsed
from headrace.schemas.protobuf.parsing import ProtobufSchema

FIELDS_MAX = 1_000
"""A page with more is no help."""

DEPTH_MAX = 8
"""Of nested fields. What is deeper shows its type only."""

VALUES_MAX = 12
"""Values of an enumeration that a type shows."""

NAMED_CHARS_MAX = 300

VISITS_MAX = 10_000
"""Parts of a JSON Schema that are looked at: those without properties, which refer to each other, add no fields."""


def fields_of(parsed: Parsed) -> tuple[Field, ...]:
    """At most FIELDS_MAX."""
    match parsed.type:
        case SchemaType.AVRO:
            found = _Avro(parsed.schema).fields()
        case SchemaType.JSON:
            found = _Json(parsed.schema).fields()
        case SchemaType.PROTOBUF:
            found = _Protobuf(parsed.schema).fields()
    return tuple(islice(found, FIELDS_MAX))


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(values: list[Any]) -> str:
    shown = [each if isinstance(each, str) else _json(each) for each in values[:VALUES_MAX]]
    return ", ".join([*shown, *(["…"] if len(values) > VALUES_MAX else [])])[:NAMED_CHARS_MAX]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


class _Avro:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema

    def fields(self) -> Iterator[Field]:
        root = self._schema.resolve(self._schema.root)
        if isinstance(root, Record):
            yield from self._of_record(root, "", (root.name,))
        else:
            yield Field(path="", type=self._name(root), required=True)
            yield from self._inside(root, "", ())

    def _of_record(self, record: Record, path: str, seen: tuple[str, ...]) -> Iterator[Field]:
        for each in record.fields:
            own = _below(path, each.name)
            has_default = each.default is not UNSET
            yield Field(
                path=own,
                type=self._name(each.type),
                required=not has_default,
                default=_json(each.default) if has_default else None,
                doc=each.doc,
            )
            yield from self._inside(each.type, own, seen)

    def _inside(self, type_: Type, path: str, seen: tuple[str, ...]) -> Iterator[Field]:
        found = self._schema.resolve(type_)
        match found:
            case Array():
                yield from self._inside(found.items, f"{path}[]", seen)
            case Map():
                yield from self._inside(found.values, f"{path}{{}}", seen)
            case Union():
                for branch in found.branches:
                    yield from self._inside(branch, path, seen)
            case Record() if found.name not in seen and len(seen) < DEPTH_MAX:
                yield from self._of_record(found, path, (*seen, found.name))

    def _name(self, type_: Type, *, depth: int = 0) -> str:
        if depth > DEPTH_MAX:
            return "…"
        match type_:
            case Array():
                return f"array of {self._name(type_.items, depth=depth + 1)}"
            case Map():
                return f"map of {self._name(type_.values, depth=depth + 1)}"
            case Union():
                names = [self._name(each, depth=depth + 1) for each in type_.branches]
                return " | ".join(names)[:NAMED_CHARS_MAX]
            case Named():
                found = self._schema.names.get(type_.name)
                return type_.name if found is None else self._name(found, depth=depth)
            case Enum():
                return f"enum {type_.name}: {_listed(list(type_.symbols))}"
            case Fixed():
                return f"{_logical(type_.properties, f'fixed {type_.name}')} of {type_.size} bytes"
            case Record():
                return type_.name
            case Primitive():
                return _logical(type_.properties, type_.name)


def _logical(properties: Any, name: str) -> str:
    logical = properties.get("logicalType")
    if not isinstance(logical, str):
        return name
    if logical == "decimal":
        logical = f"decimal({properties.get('precision')}, {properties.get('scale', 0)})"
    return f"{name} ({logical[:NAMED_CHARS_MAX]})"


class _Json:
    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema
        self._visits = 0

    def fields(self) -> Iterator[Field]:
        value, resolver = self._resolved(self._schema.contents, self._schema.resolver)
        if not (isinstance(value, dict) and "properties" in value):
            yield Field(path="", type=self._name(value, resolver), required=True)
        yield from self._inside(value, resolver, "", 0)

    def _inside(self, value: Any, resolver: Any, path: str, depth: int) -> Iterator[Field]:
        self._visits += 1
        value, resolver = self._resolved(value, resolver)
        if not isinstance(value, dict) or depth >= DEPTH_MAX or self._visits > VISITS_MAX:
            return
        required = value.get("required")
        names = set(map(str, required)) if isinstance(required, list) else set()
        properties = value.get("properties")
        for name, each in properties.items() if isinstance(properties, dict) else ():
            own = _below(path, name)
            found, place = self._resolved(each, resolver)
            yield Field(
                path=own,
                type=self._name(found, place),
                required=name in names,
                default=_json(found["default"]) if isinstance(found, dict) and "default" in found else None,
                doc=_text(found, "description") or _text(found, "title"),
            )
            yield from self._inside(found, place, own, depth + 1)
        items = value.get("items")
        if isinstance(items, dict):
            yield from self._inside(items, resolver, f"{path}[]", depth + 1)
        if isinstance(value.get("additionalProperties"), dict):
            yield from self._inside(value["additionalProperties"], resolver, f"{path}{{}}", depth + 1)
        for name in ("allOf", "anyOf", "oneOf"):
            for each in value.get(name, ()) if isinstance(value.get(name), list) else ():
                yield from self._inside(each, resolver, path, depth + 1)

    def _resolved(self, value: Any, resolver: Any) -> tuple[Any, Any]:
        for _ in range(DEPTH_MAX):
            if not (isinstance(value, dict) and isinstance(value.get("$ref"), str)):
                break
            found = resolver.lookup(value["$ref"])
            value, resolver = found.contents, found.resolver
        return value, resolver

    def _name(self, value: Any, resolver: Any, *, depth: int = 0) -> str:
        if not isinstance(value, dict) or depth > DEPTH_MAX:
            return "any"
        if "const" in value:
            return f"only {_json(value['const'])}"[:NAMED_CHARS_MAX]
        if isinstance(value.get("enum"), list):
            return f"enum: {_listed(value['enum'])}"
        declared = value.get("type")
        names = declared if isinstance(declared, list) else [declared or self._combined(value)]
        return " | ".join(self._one(str(each), value, resolver, depth) for each in names)[:NAMED_CHARS_MAX]

    def _combined(self, value: dict[str, Any]) -> str:
        kinds = {"properties": "object", "items": "array"}
        return next((kind for name, kind in kinds.items() if name in value), "any")

    def _one(self, name: str, value: dict[str, Any], resolver: Any, depth: int) -> str:
        if name == "array" and isinstance(value.get("items"), dict):
            items, place = self._resolved(value["items"], resolver)
            return f"array of {self._name(items, place, depth=depth + 1)}"
        if name == "object" and _text(value, "title"):
            return f"object {value['title']}"
        return f"{name} ({value['format']})" if name == "string" and _text(value, "format") else name


def _text(value: Any, name: str) -> str | None:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) and found else None


class _Protobuf:
    """The fields of all messages of the file that are not within another one: a record may have any of them."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self._file = schema.file
        self._messages: dict[str, DescriptorProto] = {}
        for each in (schema.file, *schema.imported):
            self._add(each)

    def _add(self, file: FileDescriptorProto) -> None:
        pending = [(f".{file.package}" if file.package else "", each) for each in file.message_type]
        while pending:
            prefix, message = pending.pop()
            name = f"{prefix}.{message.name}"
            self._messages[name] = message
            pending += [(name, each) for each in message.nested_type]

    def fields(self) -> Iterator[Field]:
        messages = self._file.message_type
        for message in messages:
            path = message.name if len(messages) > 1 else ""
            yield from self._of_message(message, path, 0)

    def _of_message(self, message: DescriptorProto, path: str, depth: int) -> Iterator[Field]:
        for each in message.field:
            inner = self._messages.get(each.type_name)
            is_map = inner is not None and inner.options.map_entry
            own = _below(path, each.name)
            yield Field(
                path=own,
                type=self._name(each, inner),
                required=each.label == FieldDescriptorProto.LABEL_REQUIRED,
                default=each.default_value or None,
            )
            if inner is None or depth >= DEPTH_MAX or each.type_name.startswith(".google.protobuf."):
                continue
            if is_map:
                inner = self._messages.get(inner.field[1].type_name)
            if inner is not None:
                is_many = each.label == FieldDescriptorProto.LABEL_REPEATED
                suffix = "{}" if is_map else "[]" if is_many else ""
                yield from self._of_message(inner, f"{own}{suffix}", depth + 1)

    def _name(self, field: FieldDescriptorProto, inner: DescriptorProto | None) -> str:
        if inner is not None and inner.options.map_entry:
            return f"map of {_proto_type(inner.field[0])} to {_proto_type(inner.field[1])}"
        prefix = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
        return f"{prefix}{_proto_type(field)} = {field.number}"


def _proto_type(field: FieldDescriptorProto) -> str:
    if field.type_name:
        return str(field.type_name).removeprefix(".")
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()
