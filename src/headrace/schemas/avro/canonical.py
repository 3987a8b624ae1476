"""An Avro schema as JSON again: names in full, each type once, keys in one order.

Two texts with the same canonical form are the same schema: only white space, the order of keys, and the ways to write
a name differ. Documentation, defaults, aliases and properties are a part of it, unlike in the parsing canonical form of
the specification: a registry keeps what differs in them as two schemas.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

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
    Properties,
    Record,
    Type,
    Union,
)


def canonical_value(schema: AvroSchema) -> Any:
    return _value(schema.root)


def _value(type_: Type) -> Any:
    match type_:
        case Named(name):
            return name
        case Primitive(name, properties):
            return {"type": name, **_sorted(properties)} if properties else name
        case Union(branches):
            return [_value(each) for each in branches]
        case Array(items, properties):
            return {"type": "array", "items": _value(items), **_sorted(properties)}
        case Map(values, properties):
            return {"type": "map", "values": _value(values), **_sorted(properties)}
    return _definition(type_)


def _definition(type_: Definition) -> dict[str, Any]:
    match type_:
        case Record():
            kind = "error" if type_.is_error else "record"
            own: dict[str, Any] = {"fields": [_field(each) for each in type_.fields]}
        case Enum():
            kind = "enum"
            own = {"symbols": type_.symbols} | ({} if type_.default is None else {"default": type_.default})
        case Fixed():
            kind, own = "fixed", {"size": type_.size}
    head = {"type": kind, "name": type_.name} | _described(type_.doc, type_.aliases)
    return head | own | _sorted(type_.properties)


def _field(field: Field) -> dict[str, Any]:
    default = {} if field.default is UNSET else {"default": field.default}
    order = {} if field.order == "ascending" else {"order": field.order}
    head = {"name": field.name, "type": _value(field.type)} | _described(field.doc, field.aliases)
    return head | default | order | _sorted(field.properties)


def _described(doc: str | None, aliases: tuple[str, ...]) -> dict[str, Any]:
    return ({} if doc is None else {"doc": doc}) | ({"aliases": aliases} if aliases else {})


def _sorted(properties: Properties) -> dict[str, Any]:
    return {name: properties[name] for name in sorted(properties)}
