"""Whether a reader's JSON Schema accepts every value that a writer's schema accepts.

That can't be decided for all schemas; in doubt the answer is no. So a property that is added to an open content model
is incompatible unless its schema accepts everything: writers may have used the name for something else. A default
does not matter, because validation does not use it. `oneOf` is compared like `anyOf`.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from headrace.schemas.incompatibility import Incompatibility
from headrace.schemas.json_schema.parsing import JsonSchema
from headrace.schemas.json_schema.values import accepts_value
from headrace.schemas.json_schema.view import (
    COMBINATORS,
    TYPES,
    Node,
    Part,
    UnsupportedPattern,
    View,
    accepts_all,
    is_number,
    item_parts,
    prefix,
    property_parts,
    types_of,
)

COMPARISONS_MAX = 50_000
"""Of pairs of schemas. Nested unions have a product of branches."""

REASONS_MAX = 50

_COMPARED = frozenset(
    (
        *(
            "type",
            "enum",
            "const",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
        ),
        *("minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
        *("required", "properties", "patternProperties", "additionalProperties", "propertyNames"),
        *("items", "prefixItems", "additionalItems"),
        "format",  # an annotation, unless a validator is told otherwise
    )
)
_TYPE_OF = {
    "pattern": "string",
    "contains": "array",
    "minContains": "array",
    "maxContains": "array",
    "unevaluatedItems": "array",
    "dependencies": "object",
    "dependentRequired": "object",
    "dependentSchemas": "object",
    "unevaluatedProperties": "object",
}
"""Keywords that have to be the same in both schemas, and the type that they apply to."""

_WITH_OTHERS = frozenset(
    (
        "if",
        "then",
        "else",
        "contains",
        "minContains",
        "maxContains",
        "unevaluatedItems",
        "unevaluatedProperties",
    )
)

_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}

_Found = list[Incompatibility]
_Key = tuple[tuple[int, bool], ...]
_Pair = tuple[_Key, _Key]


def incompatibilities_of_json_schema(reader: JsonSchema, writer: JsonSchema) -> list[Incompatibility]:
    if reader.contents == writer.contents and reader.resources == writer.resources == ():
        return []
    read, written = ((Part(each.contents, each.resolver, each),) for each in (reader, writer))
    try:
        return _Comparison().compare(read, written, "")
    except UnsupportedPattern as error:
        return [_reason("PATTERN_NOT_COMPARED", "", f"the pattern {str(error)!r:.100} needs backtracking")]


class _Comparison:
    def __init__(self) -> None:
        self._compatible: dict[_Pair, None] = {}
        """In the order in which they were found. A pair that is being compared counts as compatible within itself."""
        self._count = 0

    def compare(self, reader: Node, writer: Node, path: str) -> _Found:
        if accepts_all(reader):
            return []
        pair = (tuple(part.key() for part in reader), tuple(part.key() for part in writer))
        if pair in self._compatible:
            return []
        self._count += 1
        if self._count > COMPARISONS_MAX:
            return [
                _reason("TOO_COMPLEX", path, f"more than {COMPARISONS_MAX:,} pairs of schemas to compare")
            ]
        known = len(self._compatible)
        self._compatible[pair] = None
        found = self._compare_views(reader, writer, path)
        if found:
            # What was compatible on the assumption that this pair is has to be compared again.
            while len(self._compatible) > known:
                self._compatible.popitem()
        return found[:REASONS_MAX]

    def _compare_views(self, read: Node, written: Node, path: str) -> _Found:
        reader, writer = View(read), View(written)
        if writer.is_never:
            return []
        if reader.is_never:
            return [_reason("NOTHING_ACCEPTED", path, "the reader accepts no value")]
        if (values := writer.values()) is not None:
            return _compare_values(values, read, writer, path)
        found = [each for part in reader.plain for each in self._compare_plain(part, writer, path)]
        for branches in reader.unions:
            found += self._compare_union(branches, written, writer, path)
        for negated in reader.negated:
            found += self._compare_negated(negated, writer, path)
        if found and self._accepts_each_branch([read], writer, path):
            return []
        return found

    def _accepts_each_branch(self, readers: list[Node], writer: View, path: str) -> bool:
        """Whether each branch of one of the writer's unions is accepted by one of the readers."""
        return any(
            all(
                any(not self.compare(reader, (*branch, *writer.plain), path) for reader in readers)
                for branch in branches
            )
            for branches in writer.unions
        )

    def _compare_union(self, branches: list[Node], written: Node, writer: View, path: str) -> _Found:
        if any(not self.compare(branch, written, path) for branch in branches):
            return []
        if self._accepts_each_branch(branches, writer, path):
            return []
        # Each type of the writer on its own: ["string", "null"] is read with anyOf of both.
        types = writer.types() - ({"integer"} if "number" in writer.types() else set())
        if len(types) > 1 and all(
            any(not self.compare(branch, (*written, _only(kind, branches[0])), path) for branch in branches)
            for kind in sorted(types)
        ):
            return []
        return [
            _reason(
                "COMBINED_TYPE_SUBSCHEMAS_CHANGED",
                path,
                "no branch of the reader accepts what the writer has",
            )
        ]

    def _compare_negated(self, negated: Node, writer: View, path: str) -> _Found:
        if any(not self.compare(each, negated, path) for each in writer.negated):
            return []
        if not View(negated).types() & writer.types():
            return []
        return [_reason("NOT_TYPE_NARROWED", path, "the reader rejects values that the writer may have")]

    # Keywords

    def _compare_plain(self, reader: Part, writer: View, path: str) -> _Found:
        value, types = reader.keywords, writer.types()
        found = list(_compare_types(value, types, path))
        if "enum" in value or "const" in value:
            found.append(
                _reason("ENUM_ARRAY_CHANGED", path, "the reader lists its values, and the writer does not")
            )
        if types & {"integer", "number"}:
            found += _compare_numbers(value, writer, types, path)
        for kind, names in _LENGTHS.items():
            if kind in types:
                found += _compare_lengths(value, writer, names, path)
        if "array" in types:
            found += self._compare_items(reader, writer, path)
        if "object" in types:
            found += self._compare_properties(reader, writer, path)
        for name in value.keys() - _COMPARED - COMBINATORS:
            if _TYPE_OF.get(name, next(iter(types), "")) in types and not _has_equal(writer, name, value):
                found.append(
                    _reason(f"{name.upper()}_CHANGED", f"{path}/{name}", "the writer has no equal one")
                )
        return found

    def _compare_items(self, reader: Part, writer: View, path: str) -> _Found:
        value = reader.keywords
        found: _Found = []
        if value.get("uniqueItems") is True and not writer.has("uniqueItems", True):
            found.append(_reason("UNIQUE_ITEMS_ADDED", path, "the writer may have equal items"))
        items_max = writer.least("maxItems")
        for index in range(max(len(prefix(value)), writer.prefix_length()) + 1):
            if items_max is not None and index >= items_max:
                break
            found += self.compare(
                tuple(item_parts(reader, index)), writer.item_node(index), f"{path}/items/{index}"
            )
        return found

    def _compare_properties(self, reader: Part, writer: View, path: str) -> _Found:
        value = reader.keywords
        missing = sorted(each for each in value.get("required", ()) if each not in writer.required())
        found = [
            _reason("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required", f"the writer may omit {name}")
            for name in missing
        ]
        names = {*value.get("properties", {})}
        for part in writer.plain:
            names |= {*part.keywords.get("properties", {})}
        for name in sorted(names):
            own = tuple(property_parts(reader, name))
            found += self.compare(own, writer.property_node(name), f"{path}/properties/{name}")
        found += self._compare_other_properties(reader, writer, path)
        return found + self._compare_property_names(reader, writer, names, path)

    def _compare_other_properties(self, reader: Part, writer: View, path: str) -> _Found:
        """Of names that no schema lists."""
        found: _Found = []
        patterns = reader.keywords.get("patternProperties", {})
        for pattern, each in patterns.items():
            where = f"{path}/patternProperties/{pattern}"
            for node in _nodes_of_pattern(writer, pattern):
                found += self.compare((reader.child(each),), node, where)
        if "additionalProperties" in reader.keywords:
            rest = (reader.child(reader.keywords["additionalProperties"]),)
            for node in _nodes_of_others(writer, frozenset(patterns)):
                found += self.compare(rest, node, f"{path}/additionalProperties")
        return found

    def _compare_property_names(self, reader: Part, writer: View, names: Iterable[str], path: str) -> _Found:
        if "propertyNames" not in reader.keywords:
            return []
        required = (reader.child(reader.keywords["propertyNames"]),)
        declared = tuple(
            part.child(part.keywords["propertyNames"])
            for part in writer.plain
            if "propertyNames" in part.keywords
        )
        if declared and not self.compare(required, declared, path):
            return []
        is_closed = any(
            part.keywords.get("additionalProperties") is False and not part.keywords.get("patternProperties")
            for part in writer.plain
        )
        possible = [name for name in names if not View(writer.property_node(name)).is_never]
        if is_closed and all(accepts_value(required[0], name, in_doubt=False) for name in possible):
            return []
        return [_reason("PROPERTY_NAMES_CHANGED", f"{path}/propertyNames", "the writer may have other names")]


def _has_equal(writer: View, name: str, value: dict[str, Any]) -> bool:
    """A keyword that depends on others is equal only with them, and one with references may differ behind them."""
    if name in _WITH_OTHERS:
        return any(part.keywords == value for part in writer.plain) and not _has_reference(value)
    return writer.has(name, value[name]) and not _has_reference(value[name])


def _has_reference(value: Any) -> bool:
    if isinstance(value, dict):
        return any("ref" in name.lower() or _has_reference(each) for name, each in value.items())
    return isinstance(value, list) and any(_has_reference(each) for each in value)


def _compare_types(value: dict[str, Any], types: frozenset[str], path: str) -> Iterable[Incompatibility]:
    wrong = types - types_of(value)
    if wrong:
        yield _reason(
            "TYPE_NARROWED", f"{path}/type", f"the reader does not accept {', '.join(sorted(wrong))}"
        )


def _compare_numbers(value: dict[str, Any], writer: View, types: frozenset[str], path: str) -> _Found:
    found: _Found = []
    for sign, inclusive, exclusive in (
        (1, "minimum", "exclusiveMinimum"),
        (-1, "maximum", "exclusiveMaximum"),
    ):
        wanted = _bound(value, inclusive, exclusive, sign)
        have = [_bound(part.keywords, inclusive, exclusive, sign) for part in writer.plain]
        if wanted is not None and not any(each is not None and each >= wanted for each in have):
            found.append(
                _reason(f"{inclusive.upper()}_ADDED", f"{path}/{inclusive}", "the writer may be outside")
            )
    step = value.get("multipleOf")
    if is_number(step):
        steps = [part.keywords.get("multipleOf") for part in writer.plain]
        if "number" not in types:
            steps.append(1)
        if not any(is_number(each) and Fraction(str(each)) % Fraction(str(step)) == 0 for each in steps):
            found.append(_reason("MULTIPLE_OF_CHANGED", f"{path}/multipleOf", "the writer has other steps"))
    return found


def _bound(value: dict[str, Any], inclusive: str, exclusive: str, sign: int) -> tuple[Fraction, bool] | None:
    """The bound times the sign, and whether it is exclusive: greater ones are stricter. In draft 4, the exclusive
    keyword is a boolean."""
    found = []
    if is_number(value.get(inclusive)):
        found.append((sign * Fraction(value[inclusive]), value.get(exclusive) is True))
    if is_number(value.get(exclusive)):
        found.append((sign * Fraction(value[exclusive]), True))
    return max(found, default=None)


def _compare_lengths(
    value: dict[str, Any], writer: View, names: tuple[str, str], path: str
) -> Iterable[Incompatibility]:
    least, most = names
    if is_number(value.get(least)) and (writer.greatest(least) or 0) < value[least]:
        yield _reason(f"{least.upper()}_ADDED", f"{path}/{least}", "the writer may have less")
    if is_number(value.get(most)):
        have = writer.least(most)
        if have is None or have > value[most]:
            yield _reason(f"{most.upper()}_ADDED", f"{path}/{most}", "the writer may have more")


def _nodes_of_pattern(writer: View, pattern: str) -> Iterable[Node]:
    """The schemas that the writer may have for a name that matches the pattern and is not listed."""
    same = tuple(
        part.child(part.keywords["patternProperties"][pattern])
        for part in writer.plain
        if pattern in part.keywords.get("patternProperties", {})
    )
    return [same] if same else _nodes_of_others(writer, frozenset())


def _nodes_of_others(writer: View, without: frozenset[str]) -> Iterable[Node]:
    """The schemas that the writer may have for names that are not listed, without those of the patterns."""
    additional = tuple(
        part.child(part.keywords["additionalProperties"])
        for part in writer.plain
        if "additionalProperties" in part.keywords
    )
    by_pattern = [
        (part.child(each),)
        for part in writer.plain
        for pattern, each in part.keywords.get("patternProperties", {}).items()
        if pattern not in without
    ]
    return [additional, *by_pattern]


def _compare_values(values: list[Any], reader: Node, writer: View, path: str) -> _Found:
    wrong = [
        each
        for each in values
        if not all(accepts_value(part, each, in_doubt=False) for part in reader)
        and all(accepts_value(part, each, in_doubt=True) for part in writer.plain)
    ]
    if not wrong:
        return []
    shown = ", ".join(repr(each) for each in wrong[:5])
    return [_reason("ENUM_ARRAY_NARROWED", path, f"the reader does not accept {shown:.200}")]


def _only(kind: str, node: Node) -> Part:
    return node[0].child(_ONLY[kind])


_ONLY = {kind: {"type": kind} for kind in sorted(TYPES)}


def _reason(kind: str, path: str, detail: str) -> Incompatibility:
    return Incompatibility(kind=kind, path=path or "/", detail=detail)
