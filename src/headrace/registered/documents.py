"""JSON documents that are checked against a JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import jsonschema_rs
import msgspec

from headrace.registered.errors import BadRecord
from headrace.schemas.json_schema.parsing import JsonSchema

PROBLEM_CHARS_MAX = 300


def checker(schema: JsonSchema) -> Callable[[Any], None]:
    """BadRecord if a value violates the schema. Formats are annotations, as for Confluent's deserializers."""
    registry = jsonschema_rs.Registry(
        [(name, each.contents) for name, each in schema.resources],
        draft=jsonschema_rs.Draft7,
        retriever=_fetch_nothing,
    )
    options: dict[str, Any] = {"registry": registry, "retriever": _fetch_nothing, "validate_formats": False}
    has_dialect = isinstance(schema.contents, dict) and "$schema" in schema.contents
    create = jsonschema_rs.validator_for if has_dialect else jsonschema_rs.Draft7Validator
    validator = create(schema.contents, **options)

    def check(value: Any) -> None:
        try:
            is_valid = validator.is_valid(value)
        except Exception as error:  # such as a number that Rust has no type for
            raise BadRecord(f"its JSON can't be checked: {error!s:.200}") from error
        if not is_valid:
            raise BadRecord(f"its JSON violates the schema: {_first_problem(validator, value)}")

    return check


def parse_document(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"not JSON: {error}") from error
    except RecursionError as error:
        raise BadRecord("not JSON that can be parsed: nested too deeply") from error


def _first_problem(validator: Any, value: Any) -> str:
    error = next(iter(validator.iter_errors(value)))
    path = "/".join(str(each) for each in error.instance_path)
    return f"{f'/{path}: ' if path else ''}{error.message}"[:PROBLEM_CHARS_MAX]


def _fetch_nothing(address: str) -> NoReturn:
    raise ValueError(f"{address} is no reference of the schema")
