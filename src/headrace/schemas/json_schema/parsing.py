"""JSON text -> a JSON Schema whose references are known to resolve. Nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jsonschema
import referencing
from jsonschema.validators import validator_for
from msgspec import Struct
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7, UnknownDialect, specification_with

from headrace.schemas.errors import InvalidSchema
from headrace.schemas.json_text import decode

ROOT = "headrace:schema"
"""The address of a schema without one of its own."""

_WITHIN_OTHERS = frozenset(
    ("then", "else", "minContains", "maxContains", "additionalItems", "exclusiveMinimum", "exclusiveMaximum")
)
"""Keywords that validators look at together with another one."""

Registry = referencing.Registry[Any]
Resolver = Any  # referencing keeps the type of its resolver private


class JsonSchema(Struct, frozen=True, eq=False):
    contents: Any
    resources: tuple[tuple[str, referencing.Resource[Any]], ...]
    """Of the references, by the names that schemas use for them."""

    resolver: Resolver
    keywords_by_id: dict[int, dict[str, Any]] = {}

    def keywords(self, value: dict[str, Any]) -> dict[str, Any]:
        """Of a part of this schema, without those that its dialect does not know."""
        found = self.keywords_by_id.get(id(value))
        if found is None:
            known = self.validator_class.VALIDATORS.keys() | _WITHIN_OTHERS
            found = self.keywords_by_id[id(value)] = {
                name: each for name, each in value.items() if name in known
            }
        return found

    @property
    def resource(self) -> referencing.Resource[Any]:
        return _resource(self.contents)

    @property
    def ignores_siblings_of_ref(self) -> bool:
        """Before 2019-09, an object with `$ref` is nothing but the reference."""
        return self.validator_class in (
            jsonschema.Draft3Validator,
            jsonschema.Draft4Validator,
            jsonschema.Draft6Validator,
            jsonschema.Draft7Validator,
        )

    @property
    def validator_class(self) -> Any:
        return _validator_class(self.contents)


def parse_json_schema(text: str, *, referenced: Iterable[tuple[str, JsonSchema]] = ()) -> JsonSchema:
    """`referenced` are schemas by the names that the text uses for them. Without `$schema`, or with an unknown one, it
    is of draft 7, as for Confluent's registry."""
    try:
        return _parsed(decode(text), referenced)
    except RecursionError:
        raise InvalidSchema(
            "the schema is nested too deep to be checked", hint="name inner schemas, and refer to them"
        ) from None


def _parsed(contents: Any, referenced: Iterable[tuple[str, JsonSchema]]) -> JsonSchema:
    if not isinstance(contents, dict | bool):
        raise InvalidSchema("a JSON schema is an object or a boolean", hint='such as `{"type": "object"}`')
    try:
        _validator_class(contents).check_schema(contents)
    except jsonschema.SchemaError as error:
        place = "/".join(str(each) for each in error.absolute_path)
        raise InvalidSchema(f"/{place}: {error.message:.500}", hint="see the specification") from error
    resources = tuple(pair for name, each in referenced for pair in (*each.resources, (name, each.resource)))
    resource = _resource(contents)
    registry: Registry = referencing.Registry().with_resources([*resources, (ROOT, resource)])
    resolver = registry.crawl().resolver(resource.id() or ROOT)
    _check_references(resource, resolver)
    return JsonSchema(contents, resources, resolver)


def _check_references(resource: referencing.Resource[Any], resolver: Resolver) -> None:
    pending = [(resource, resolver)]
    while pending:
        current, own = pending.pop()
        contents = current.contents
        if isinstance(contents, dict) and isinstance(reference := contents.get("$ref"), str):
            try:
                own.lookup(reference)
            except (Unresolvable, NoSuchResource) as error:
                raise InvalidSchema(
                    f"the reference {reference!r:.200} does not resolve",
                    hint="register the other schema, and add a reference with this name",
                ) from error
        pending += [(each, own.in_subresource(each)) for each in current.subresources()]


def _resource(contents: Any) -> referencing.Resource[Any]:
    try:
        return referencing.Resource.from_contents(contents, default_specification=DRAFT7)
    except UnknownDialect:
        return DRAFT7.create_resource(contents)


def _validator_class(contents: Any) -> Any:
    dialect = contents.get("$schema") if isinstance(contents, dict) else None
    if dialect is None:
        return jsonschema.Draft7Validator
    try:
        specification_with(str(dialect))
    except UnknownDialect:
        return jsonschema.Draft7Validator
    return validator_for(contents, default=jsonschema.Draft7Validator)
