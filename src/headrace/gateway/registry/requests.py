"""The bodies of requests."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from headrace.gateway.registry import errors
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.schemas.definition import Definition, Reference, SchemaType

T = TypeVar("T")


class SchemaBody(Struct, kw_only=True):
    schema: str | None = None
    schemaType: str | None = None
    references: tuple[Reference, ...] | None = None
    metadata: dict[str, Any] | None = None
    ruleSet: dict[str, Any] | None = None
    id: int | None = None
    version: int | None = None

    def wanted(self) -> Wanted:
        if not self.schema:
            raise errors.invalid_schema("Empty schema")
        try:
            kind = SchemaType(self.schemaType or "AVRO")
        except ValueError:
            raise errors.invalid_schema(f"Invalid schema type {self.schemaType:.40}") from None
        extra = {"metadata": self.metadata, "ruleSet": self.ruleSet}
        # Clients send an id and a version of -1 or 0 for "not set".
        return Wanted(
            definition=Definition(text=self.schema, type=kind, references=self.references or ()),
            extra={name: value for name, value in extra.items() if value},
            id=self.id if self.id and self.id > 0 else None,
            version=self.version if self.version and self.version > 0 else None,
        )


class ConfigBody(Struct):
    compatibility: str | None = None


class ModeBody(Struct):
    mode: str | None = None


def decode_body(text: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise RegistryError(422, 422, f"the body of the request: {error}") from None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise RegistryError(400, 400, f"the body of the request is not JSON: {error}") from None
