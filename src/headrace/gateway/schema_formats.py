"""Bodies of Confluent's REST proxy v2 in Avro, JSON Schema and Protobuf: values in JSON, encoded with a schema of the
registry, whose id the records get.

A schema comes with its text, which is registered for the topic if it is new, or with its id.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.gateway.errors import (
    BadBody,
    BrokerUnavailable,
    NoKeySchema,
    NoValueSchema,
    SchemaRejected,
    ValueRejected,
)
from headrace.gateway.formats import check_count, decoded, json_text
from headrace.gateway.records import NewRecord
from headrace.gateway.registry import errors
from headrace.gateway.registry.changes import Wanted
from headrace.gateway.registry.errors import RegistryError
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.schemas.definition import Definition, SchemaType
from headrace.schemas.encoding import Encode, encoder
from headrace.schemas.errors import DoesNotFit, InvalidSchema

TYPES = {
    "application/vnd.kafka.avro.v2+json": SchemaType.AVRO,
    "application/vnd.kafka.jsonschema.v2+json": SchemaType.JSON,
    "application/vnd.kafka.protobuf.v2+json": SchemaType.PROTOBUF,
}
"""By content type."""

ENCODERS_MAX = 500
"""Schemas that are ready to encode: those in use."""

_FIRST_MESSAGE = b"\0"
"""Before a Protobuf message: which one of its file it is."""

Part = Literal["key", "value"]


class _Record(Struct, forbid_unknown_fields=True):  # a mistyped `value` would be a tombstone
    key: Any = None
    value: Any = None
    partition: int | None = None


class _Body(Struct):
    records: list[_Record]
    key_schema: str | None = None
    key_schema_id: int | None = None
    value_schema: str | None = None
    value_schema_id: int | None = None


_BODY = msgspec.json.Decoder(_Body, strict=False)  # clients also send ids as strings


class Encoded(Struct, frozen=True, kw_only=True):
    records: Sequence[NewRecord]
    key_schema_id: int | None
    value_schema_id: int | None


class _Known(Struct, frozen=True):
    id: int
    encode: Encode


class SchemaFormats:
    """Threads may share it."""

    def __init__(self, registry: Registry | OtherRegistry, *, records_max: int) -> None:
        self._registry = registry
        self._records_max = records_max
        self._of_text = functools.lru_cache(maxsize=ENCODERS_MAX)(self._register)
        self._of_id = functools.lru_cache(maxsize=ENCODERS_MAX)(self._find)

    def records_of(self, content_type: str, topic: str, body: bytes) -> Encoded:
        """The records of a body. It waits for the registry."""
        hint = 'send {"value_schema": "…", "records": [{"value": …}]}, or value_schema_id'
        found = decoded(_BODY, json_text(body), hint=hint)
        check_count(len(found.records), self._records_max)
        kind = TYPES[content_type]
        keys, key_id = self._encoded(
            "key", [each.key for each in found.records], kind, topic, found.key_schema, found.key_schema_id
        )
        values, value_id = self._encoded(
            "value",
            [each.value for each in found.records],
            kind,
            topic,
            found.value_schema,
            found.value_schema_id,
        )
        records = [
            NewRecord(key=key, value=value, partition=each.partition)
            for key, value, each in zip(keys, values, found.records, strict=True)
        ]
        return Encoded(records=records, key_schema_id=key_id, value_schema_id=value_id)

    def _encoded(
        self,
        part: Part,
        values: list[Any],
        kind: SchemaType,
        topic: str,
        text: str | None,
        schema_id: int | None,
    ) -> tuple[Sequence[bytes | None], int | None]:
        """A null is a record without a key, or a tombstone; it needs no schema."""
        if all(each is None for each in values):
            return [None] * len(values), None
        if schema_id is None and text is None:
            missing = NoKeySchema if part == "key" else NoValueSchema
            raise missing(
                f"the body has {part}s and no {part}_schema", hint=f"send {part}_schema or {part}_schema_id"
            )
        known = self._known(f"{topic}-{part}", kind, text, schema_id)
        prefix = b"\0" + known.id.to_bytes(4)
        if kind is SchemaType.PROTOBUF:
            prefix += _FIRST_MESSAGE
        return [_encode(known, prefix, part, index, each) for index, each in enumerate(values)], known.id

    def _known(self, subject: str, kind: SchemaType, text: str | None, schema_id: int | None) -> _Known:
        try:
            if schema_id is not None:
                return self._of_id(kind, schema_id)
            known = self._of_text(subject, kind, text or "")
            if not self._registry.has(subject, known.id):  # somebody deleted it
                self._of_text.cache_clear()
                known = self._of_text(subject, kind, text or "")
            return known
        except InvalidSchema as error:
            raise ValueRejected(f"the schema can't encode values: {error.message}", hint=error.hint) from None
        except RegistryError as error:
            if error.status >= 500:
                raise BrokerUnavailable(error.message, hint=error.hint) from error
            if error.code in (errors.INVALID_SCHEMA, errors.NO_SCHEMA):
                raise ValueRejected(error.message, hint="correct the schema, or its id") from None
            raise SchemaRejected(
                f"Error when registering schema: {error.message}", hint=f"the subject is {subject}"
            ) from None

    def _register(self, subject: str, kind: SchemaType, text: str) -> _Known:
        wanted = Wanted(definition=Definition(text=text, type=kind))
        version = self._registry.register(subject, wanted, normalize=False)
        return _Known(version.id, encoder(self._registry.parsed(version)))

    def _find(self, kind: SchemaType, schema_id: int) -> _Known:
        version = self._registry.of_id(schema_id)[0]
        if version.definition.type is not kind:
            raise ValueRejected(
                f"schema {schema_id} is {version.definition.type}, and the content type is for {kind}",
                hint="send the content type of the schema",
            )
        return _Known(version.id, encoder(self._registry.parsed(version)))


def _encode(known: _Known, prefix: bytes, part: Part, index: int, value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return prefix + known.encode(value)
    except DoesNotFit as error:
        raise ValueRejected(
            f"the {part} of record {index} does not fit schema {known.id}: {error.message}", hint=error.hint
        ) from None
    except UnicodeEncodeError as error:
        raise BadBody(f"the {part} of record {index} is not UTF-8: {error.reason}") from None
