"""Whether a schema accepts a value, with patterns that match in linear time: both come from clients."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema.validators import extend

from headrace.schemas.json_schema.view import Part, UnsupportedPattern, matches
from headrace.schemas.json_text import canonical


def accepts_value(part: Part, value: Any, *, in_doubt: bool) -> bool:
    validator = linear_validator(part.schema.validator_class)(
        part.value if not part.is_plain else _without_combinators(part.value), _resolver=part.resolver
    )
    try:
        return bool(validator.is_valid(value))
    except TypeError:  # of the library, for `"items": true` with `additionalItems`
        return in_doubt


def _without_combinators(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: each for name, each in value.items() if name not in ("allOf", "anyOf", "oneOf", "not", "$ref")
    }


@functools.cache
def linear_validator(validator_class: Any) -> Any:
    """A class of validators for schemas and values of clients. A keyword that cannot be checked in linear time raises
    UnsupportedPattern."""
    keywords = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "unevaluatedProperties": _unevaluated_properties,
        "uniqueItems": _unique_items,
    }
    known = {name: each for name, each in keywords.items() if name in validator_class.VALIDATORS}
    return extend(validator_class, known)


def _pattern(
    _validator: Any, pattern: str, instance: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    if isinstance(instance, str) and not matches(pattern, instance):
        yield jsonschema.ValidationError(f"does not match {pattern!r:.100}")


def _pattern_properties(
    validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    for pattern, each in patterns.items():
        for name, value in instance.items() if isinstance(instance, dict) else ():
            if matches(pattern, name):
                yield from validator.descend(value, each, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, additional: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in known or any(matches(pattern, name) for pattern in patterns):
            continue
        if additional is False:
            yield jsonschema.ValidationError(f"the property {name!r:.100} is not expected")
        elif isinstance(additional, dict):
            yield from validator.descend(value, additional, path=name)


def _unevaluated_properties(
    validator: Any, unevaluated: Any, instance: Any, schema: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """The library matches patterns of any of the subschemas with Python's expressions."""
    if _has_patterns(schema):
        raise UnsupportedPattern("patternProperties together with unevaluatedProperties")
    check = jsonschema.Draft202012Validator.VALIDATORS["unevaluatedProperties"]
    yield from check(validator, unevaluated, instance, schema)


def _has_patterns(schema: Any) -> bool:
    """A reference may lead to some."""
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if not value.keys().isdisjoint(("patternProperties", "$ref", "$dynamicRef", "$recursiveRef")):
                return True
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return False


def _unique_items(
    _validator: Any, is_unique: Any, instance: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    if is_unique and isinstance(instance, list):
        distinct = {canonical(_with_one_kind_of_number(each)) for each in instance}
        if len(distinct) < len(instance):
            yield jsonschema.ValidationError("the array has equal items")


def _with_one_kind_of_number(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_with_one_kind_of_number(each) for each in value]
        case dict():
            return {name: _with_one_kind_of_number(each) for name, each in value.items()}
    return value
