"""Whether a schema accepts a value, with patterns that match in linear time: both come from clients."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jsonschema
from jsonschema.validators import extend

from headrace.schemas.json_schema.view import Part, matches


def accepts_value(part: Part, value: Any, *, in_doubt: bool) -> bool:
    validator = _with_linear_patterns(part.schema.validator_class)(
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
def _with_linear_patterns(validator_class: Any) -> Any:
    return extend(validator_class, {"pattern": _pattern, "patternProperties": _pattern_properties})


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
