"""A value that a JSON Schema accepts -> JSON. Bounded: schema and value both come from clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
from jsonschema.validators import extend

from headrace.schemas.errors import DoesNotFit
from headrace.schemas.json_schema.parsing import JsonSchema
from headrace.schemas.json_schema.values import linear_validator
from headrace.schemas.json_schema.view import UnsupportedPattern

REFERENCES_MAX = 20_000
"""That one value follows. A schema that refers to itself in two branches doubles the work at each level of a value."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class _TooManyReferences(Exception):
    pass


class JsonSchemaEncoder:
    """Threads may share it; they take turns."""

    def __init__(self, schema: JsonSchema) -> None:
        linear = linear_validator(schema.validator_class)
        counted = {
            name: self._counted(linear.VALIDATORS[name]) for name in _REFERENCES if name in linear.VALIDATORS
        }
        self._validator = extend(linear, counted)(schema.contents, _resolver=schema.resolver)
        self._references = 0
        self._lock = threading.Lock()

    def encode(self, value: Any) -> bytes:
        try:
            with self._lock:
                self._references = 0
                error = next(self._validator.iter_errors(value), None)
        except (RecursionError, _TooManyReferences):
            raise DoesNotFit("checking the value takes too long", hint="send a flatter value") from None
        except UnsupportedPattern as error:
            raise DoesNotFit(
                f"the schema has a pattern that is not checked: {error!s:.200}",
                hint="use the syntax of RE2, without look-around and back references",
            ) from None
        if error is not None:
            place = "/".join(map(str, error.absolute_path))
            raise DoesNotFit(f"/{place:.200}: {error.message:.300}", hint="see the schema")
        return msgspec.json.encode(value)

    def _counted(self, check: Any) -> Any:
        def counted(
            validator: Any, reference: Any, instance: Any, schema: Any
        ) -> Iterator[jsonschema.ValidationError]:
            self._references += 1
            if self._references > REFERENCES_MAX:
                raise _TooManyReferences
            yield from check(validator, reference, instance, schema) or ()

        return counted
