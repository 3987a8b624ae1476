"""A JSON Schema as a conjunction: what its keywords require, through references and `allOf`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import re2
from msgspec import Struct

from headrace.schemas.json_schema.parsing import JsonSchema, Resolver

TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
COMBINATORS = frozenset({"allOf", "anyOf", "oneOf", "not", "$ref"})


class UnsupportedPattern(Exception):
    """A pattern with look-around or back references."""


class Part(Struct, frozen=True, eq=False):
    """A schema and where its references resolve. `is_plain`: without its combinators."""

    value: Any
    resolver: Resolver
    schema: JsonSchema
    is_plain: bool = False

    def child(self, value: Any) -> Part:
        return Part(value, self.resolver, self.schema)

    @property
    def keywords(self) -> dict[str, Any]:
        return self.schema.keywords(self.value)

    def key(self) -> tuple[int, bool]:
        return id(self.value), self.is_plain


Node = tuple[Part, ...]
"""A conjunction of schemas."""


class View:
    """The same conjunction, taken apart."""

    def __init__(self, node: Node) -> None:
        self.plain: list[Part] = []
        self.unions: list[list[Node]] = []
        self.negated: list[Node] = []
        self.is_never = False
        self._seen: set[int] = set()
        for part in node:
            self._add(part)

    def _add(self, part: Part) -> None:
        value = part.value
        if isinstance(value, bool):
            self.is_never |= not value
            return
        if part.is_plain:
            self.plain.append(part)
            return
        if id(value) in self._seen:  # a reference to itself requires nothing more
            return
        self._seen.add(id(value))
        reference = value.get("$ref")
        if isinstance(reference, str):
            found = part.resolver.lookup(reference)
            self._add(Part(found.contents, found.resolver, part.schema))
            if part.schema.ignores_siblings_of_ref:
                return
        keywords = part.keywords
        for each in keywords.get("allOf", ()):
            self._add(part.child(each))
        for name in ("anyOf", "oneOf"):
            if name in keywords:
                self.unions.append([(part.child(each),) for each in keywords[name]])
        if "not" in keywords:
            negated: Node = (part.child(keywords["not"]),)
            self.is_never |= accepts_all(negated)
            self.negated.append(negated)
        self.plain.append(Part(value, part.resolver, part.schema, is_plain=True))

    # What the keywords of all parts require together

    def types(self) -> frozenset[str]:
        """With `integer` wherever there is `number`."""
        found = TYPES
        for part in self.plain:
            found &= types_of(part.keywords)
        return found

    def values(self) -> list[Any] | None:
        """If only these are valid, or fewer of them."""
        for part in self.plain:
            if "const" in part.keywords:
                return [part.keywords["const"]]
            if "enum" in part.keywords:
                return list(part.keywords["enum"])
        return None

    def required(self) -> frozenset[str]:
        return frozenset(name for part in self.plain for name in _names(part.keywords.get("required")))

    def greatest(self, name: str) -> Fraction | None:
        return max(self._numbers(name), default=None)

    def least(self, name: str) -> Fraction | None:
        return min(self._numbers(name), default=None)

    def has(self, name: str, value: Any) -> bool:
        return any(name in part.keywords and part.keywords[name] == value for part in self.plain)

    def _numbers(self, name: str) -> list[Fraction]:
        found: list[Any] = [part.keywords.get(name) for part in self.plain]
        return [Fraction(each) for each in found if is_number(each)]

    def property_node(self, name: str) -> Node:
        return tuple(each for part in self.plain for each in property_parts(part, name))

    def item_node(self, index: int) -> Node:
        return tuple(each for part in self.plain for each in item_parts(part, index))

    def prefix_length(self) -> int:
        return max((len(prefix(part.keywords)) for part in self.plain), default=0)


def accepts_all(node: Node) -> bool:
    return all(part.value is True or part.value == {} for part in node)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def types_of(value: dict[str, Any]) -> frozenset[str]:
    declared = value.get("type")
    if declared is None:
        return TYPES
    found = set(_names(declared) if isinstance(declared, list) else [declared])
    return frozenset(found | ({"integer"} if "number" in found else set()))


def prefix(value: dict[str, Any]) -> Sequence[Any]:
    found = value.get("prefixItems", value.get("items"))
    return found if isinstance(found, list) else ()


def item_parts(part: Part, index: int) -> Iterable[Part]:
    first = prefix(part.keywords)
    if index < len(first):
        return [part.child(first[index])]
    is_tuple = isinstance(part.keywords.get("items"), list)
    rest = part.keywords.get("additionalItems" if is_tuple else "items")
    return [] if rest is None else [part.child(rest)]


def property_parts(part: Part, name: str) -> Iterable[Part]:
    """The schemas that a property of this name has to meet."""
    found = []
    if name in part.keywords.get("properties", {}):
        found.append(part.child(part.keywords["properties"][name]))
    for pattern, each in part.keywords.get("patternProperties", {}).items():
        if matches(pattern, name):
            found.append(part.child(each))
    if not found and "additionalProperties" in part.keywords:
        found.append(part.child(part.keywords["additionalProperties"]))
    return found


def matches(pattern: str, text: str) -> bool:
    """In linear time, because both come from clients. UnsupportedPattern if RE2 has no syntax for it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options).search(text) is not None
    except re2.error as error:
        raise UnsupportedPattern(pattern) from error


def _names(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
