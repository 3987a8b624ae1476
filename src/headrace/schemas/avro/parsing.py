"""JSON text -> an Avro schema.

Java's library is the measure for what the specification leaves open: a name without a namespace is looked up in the
enclosing namespace and then in none, and defaults are not checked, because registered schemas have wrong ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from headrace.names import did_you_mean
from headrace.schemas.avro.types import (
    PRIMITIVES,
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
from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_text import decode

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORDERS = ("ascending", "descending", "ignore")
_NAMED = ("record", "error", "enum", "fixed")
_OWN = frozenset(
    ("type", "name", "namespace", "doc", "aliases", "fields", "symbols", "size", "items", "values")
)
_OWN_OF_ENUM = _OWN | {"default"}
_OWN_OF_FIELD = frozenset(("type", "name", "doc", "aliases", "default", "order"))


def parse_avro(text: str, *, referenced: Iterable[AvroSchema] = (), strict: bool = True) -> AvroSchema:
    """`referenced` are schemas whose names the text may use. Without `strict`, names may have any characters: other
    registries have accepted such schemas."""
    parser = _Parser({name: each for schema in referenced for name, each in schema.names.items()}, strict)
    return AvroSchema(parser.parse(decode(text), "", ""), parser.names)


class _Parser:
    def __init__(self, names: Mapping[str, Definition], strict: bool) -> None:
        self.names: dict[str, Definition] = dict(names)
        self._open: set[str] = set()
        """Records whose fields are being parsed, which may use their names."""
        self._defined: set[str] = set()
        self._strict = strict

    def parse(self, value: Any, namespace: str, path: str) -> Type:
        match value:
            case str():
                return self._used(value, namespace, path)
            case list():
                return self._union(value, namespace, path)
            case dict():
                return self._of_object(value, namespace, path)
        raise _error(path, f"{value!r} is not a type", "a type is a name, an object, or an array of branches")

    def _used(self, name: str, namespace: str, path: str) -> Type:
        if name in PRIMITIVES:
            return Primitive(name)
        for known in (name if "." in name or not namespace else f"{namespace}.{name}", name):
            if known in self.names or known in self._open:
                return Named(known)
        known_names = {*self.names, *self._open, *PRIMITIVES}
        hint = (
            did_you_mean(name, known_names) or "define it before it is used, or add a reference to its schema"
        )
        raise _error(path, f"the type {name!r} is unknown", hint)

    def _union(self, branches: list[Any], namespace: str, path: str) -> Union:
        parsed = tuple(self.parse(each, namespace, f"{path}/{n}") for n, each in enumerate(branches))
        seen = set()
        for n, branch in enumerate(parsed):
            if isinstance(branch, Union):
                raise _error(
                    f"{path}/{n}", "a union has a union as a branch", "write all branches in one array"
                )
            key = branch.name if isinstance(branch, Named | Primitive | Definition) else type(branch).__name__
            if key in seen:
                raise _error(
                    f"{path}/{n}", f"a union has {key.lower()!r} twice", "name the types, or remove one"
                )
            seen.add(key)
        return Union(parsed)

    def _of_object(self, value: dict[str, Any], namespace: str, path: str) -> Type:
        kind = value.get("type")
        match kind:
            case "array":
                items = self.parse(_required(value, "items", path), namespace, f"{path}/items")
                return Array(items, _properties(value, _OWN))
            case "map":
                values = self.parse(_required(value, "values", path), namespace, f"{path}/values")
                return Map(values, _properties(value, _OWN))
            case str() if kind in PRIMITIVES:
                return Primitive(kind, _properties(value, _OWN))
            case str() if kind in _NAMED:
                return self._definition(kind, value, namespace, path)
            case str() | list() | dict():
                return self.parse(kind, namespace, f"{path}/type")
        raise _error(path, f"the type is {kind!r}", "set `type` to the name of a type")

    def _definition(self, kind: str, value: dict[str, Any], namespace: str, path: str) -> Definition:
        name = self._full_name(value, namespace, path)
        if name in self._defined:
            raise _error(path, f"the type {name} is defined twice", "use its name the second time")
        self._defined.add(name)
        space = name.rpartition(".")[0]
        shared: dict[str, Any] = {
            "name": name,
            "aliases": tuple(
                each if "." in each or not space else f"{space}.{each}"
                for each in _texts(value, "aliases", path)
            ),
            "doc": _doc(value),
        }
        match kind:
            case "enum":
                defined: Definition = self._enum(value, shared, path)
            case "fixed":
                defined = _fixed(value, shared, path)
            case _:
                self._open.add(name)
                fields = self._fields(value, space, path)
                self._open.remove(name)
                properties = _properties(value, _OWN)
                defined = Record(**shared, fields=fields, is_error=kind == "error", properties=properties)
        self.names[name] = defined
        return defined

    def _enum(self, value: dict[str, Any], shared: dict[str, Any], path: str) -> Enum:
        if not isinstance(value.get("symbols"), list):
            raise _error(
                path, f"the enum {shared['name']} has no array of symbols", 'set `"symbols": ["A", "B"]`'
            )
        symbols = _texts(value, "symbols", path)
        for symbol in symbols:
            self._check_name(symbol, f"{path}/symbols")
        if len(set(symbols)) < len(symbols):
            raise _error(f"{path}/symbols", "a symbol is there twice", "remove one of them")
        default = value.get("default")
        if default is not None and default not in symbols:
            raise _error(
                path, f"the default {default!r} is not a symbol", f"choose from {', '.join(symbols)}"
            )
        return Enum(**shared, symbols=symbols, default=default, properties=_properties(value, _OWN_OF_ENUM))

    def _fields(self, value: dict[str, Any], namespace: str, path: str) -> tuple[Field, ...]:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise _error(path, f"the record {value['name']} has no array of fields", 'set `"fields": []`')
        parsed = tuple(self._field(each, namespace, f"{path}/fields/{n}") for n, each in enumerate(fields))
        seen = set()
        for each in parsed:
            if each.name in seen:
                raise _error(path, f"the field {each.name!r} is there twice", "rename one of them")
            seen.add(each.name)
        return parsed

    def _field(self, value: Any, namespace: str, path: str) -> Field:
        if not isinstance(value, dict) or not isinstance(value.get("name"), str):
            raise _error(path, "a field is an object with a name", '`{"name": "id", "type": "long"}`')
        self._check_name(value["name"], path)
        order = value.get("order", "ascending")
        if order not in _ORDERS:
            raise _error(path, f"the order {order!r} is unknown", f"choose from {', '.join(_ORDERS)}")
        return Field(
            name=value["name"],
            type=self.parse(_required(value, "type", path), namespace, f"{path}/type"),
            default=value.get("default", UNSET),
            order=order,
            aliases=_texts(value, "aliases", path),
            doc=_doc(value),
            properties=_properties(value, _OWN_OF_FIELD),
        )

    def _full_name(self, value: dict[str, Any], namespace: str, path: str) -> str:
        name, own = value.get("name"), value.get("namespace")
        if not isinstance(name, str) or not name:
            raise _error(path, "a record, an enum and a fixed need a name", 'set `"name": "Order"`')
        if "." not in name:
            space = own if isinstance(own, str) else namespace
            name = f"{space}.{name}" if space else name
        for part in name.removeprefix(".").split("."):
            self._check_name(part, path)
        if name in PRIMITIVES:
            raise _error(path, f"{name} is the name of a primitive type", "choose another name")
        return name.removeprefix(".")

    def _check_name(self, name: str, path: str) -> None:
        if self._strict and not _NAME.fullmatch(name):
            raise _error(
                path,
                f"{name!r} is not a name",
                "a name has letters, digits and _, and does not begin with a digit",
            )


def _fixed(value: dict[str, Any], shared: dict[str, Any], path: str) -> Fixed:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _error(path, f"the size of {shared['name']} is {size!r}", "set `size` to the number of bytes")
    return Fixed(**shared, size=size, properties=_properties(value, _OWN))


def _properties(value: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name not in own}


def _required(value: dict[str, Any], name: str, path: str) -> Any:
    if name not in value:
        raise _error(path, f"`{name}` is not set", f"an object of this kind needs `{name}`")
    return value[name]


def _texts(value: dict[str, Any], name: str, path: str) -> tuple[str, ...]:
    found = value.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise _error(f"{path}/{name}", f"`{name}` is not an array of strings", "write each as a string")
    return tuple(found)


def _doc(value: dict[str, Any]) -> str | None:
    return value["doc"] if isinstance(value.get("doc"), str) else None


def _error(path: str, problem: str, hint: str) -> InvalidSchema:
    return InvalidSchema(f"{path or '/'}: {problem}", hint=hint)
