"""Records with the id of a schema as JSON, for people, and JSON as such records.

Bytes are base64, times are ISO 8601 and decimals are texts in both directions.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, DecimalException
from typing import Any

import msgspec

from headrace.registered.client import RegistryClient
from headrace.registered.errors import BadRecord, RequestRejected
from headrace.registered.framing import PREFIX_BYTES, path_bytes, prefix, schema_id
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.schemas.avro.types import (
    Array,
    AvroSchema,
    Definition,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Union,
)
from headrace.schemas.definition import SchemaType

_LOGICAL_TYPES = (
    "date",
    "local-timestamp-micros",
    "local-timestamp-millis",
    "time-micros",
    "time-millis",
    "timestamp-micros",
    "timestamp-millis",
    "uuid",
)

Convert = Callable[[bytes], bytes]


class RecordReader:
    """Records of any schemas of a registry as JSON. A schema is requested once."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client
        self._readers: dict[int, Convert] = {}

    def to_json(self, record: bytes) -> bytes:
        """BadRecord if the record is not of its schema, or has none."""
        found = schema_id(record)
        if found not in self._readers:
            try:
                registered = self._client.by_id(found)
            except RequestRejected as error:
                raise BadRecord(error.message) from error
            self._readers[found] = _READERS[registered.schema.type](registered.schema)
        return self._readers[found](record)


def record_writer(registered: RegisteredSchema) -> Convert:
    """From JSON to records of a schema. BadRecord if the JSON is not of the schema."""
    return _WRITERS[registered.schema.type](registered)


def _avro_reader(schema: SchemaText) -> Convert:
    import fastavro

    from headrace.registered.avro import as_json

    parsed = fastavro.parse_schema(as_json(schema.avro(), logical_types=_LOGICAL_TYPES))

    def read(record: bytes) -> bytes:
        try:
            value = fastavro.schemaless_reader(io.BytesIO(record[PREFIX_BYTES:]), parsed, None)
        except Exception as error:  # damaged bytes raise almost anything
            raise BadRecord(f"not Avro of its schema: {str(error) or type(error).__name__}") from error
        return _json(value)

    return read


def _json_reader(schema: SchemaText) -> Convert:
    from headrace.registered.documents import checker, parse_document

    check = checker(schema.json_schema())

    def read(record: bytes) -> bytes:
        body = record[PREFIX_BYTES:]
        check(parse_document(body))
        return body

    return read


def _protobuf_reader(schema: SchemaText) -> Convert:
    from google.protobuf import json_format

    from headrace.registered.protobuf import Messages, message_and_body, parse_message

    messages = Messages(schema.protobuf())

    def read(record: bytes) -> bytes:
        name, body = message_and_body(messages, record)
        message = parse_message(messages.kind(name), body)
        try:
            return _json(json_format.MessageToDict(message, preserving_proto_field_name=True))
        except (TypeError, ValueError, OverflowError) as error:
            raise BadRecord(f"its {name} has no JSON: {error}") from error

    return read


def _avro_writer(registered: RegisteredSchema) -> Convert:
    import fastavro

    from headrace.registered.avro import as_json

    schema = registered.schema.avro()
    parsed = fastavro.parse_schema(as_json(schema, logical_types=_LOGICAL_TYPES))
    head = prefix(registered.id)

    def write(text: bytes) -> bytes:
        stream = io.BytesIO()
        try:
            value = _avro_value(schema, schema.root, json.loads(text, parse_float=Decimal))
            fastavro.schemaless_writer(stream, parsed, value, strict_allow_default=True)
        except Exception as error:  # values of other types raise almost anything
            raise BadRecord(f"not of the Avro schema: {error}") from error
        return head + stream.getvalue()

    return write


def _json_writer(registered: RegisteredSchema) -> Convert:
    from headrace.registered.documents import checker, parse_document

    check, head = checker(registered.schema.json_schema()), prefix(registered.id)

    def write(text: bytes) -> bytes:
        check(parse_document(text))
        return head + text

    return write


def _protobuf_writer(registered: RegisteredSchema) -> Convert:
    from google.protobuf import json_format

    from headrace.registered.protobuf import Messages

    messages = Messages(registered.schema.protobuf())
    name = messages.chosen(None)
    kind, head = messages.kind(name), prefix(registered.id) + path_bytes(messages.path_of(name))

    def write(text: bytes) -> bytes:
        try:
            return head + bytes(json_format.Parse(text, kind()).SerializeToString())
        except (json_format.ParseError, UnicodeDecodeError) as error:
            raise BadRecord(f"not a {name}: {error}") from error

    return write


_READERS: dict[SchemaType, Callable[[SchemaText], Convert]] = {
    SchemaType.AVRO: _avro_reader,
    SchemaType.JSON: _json_reader,
    SchemaType.PROTOBUF: _protobuf_reader,
}
_WRITERS: dict[SchemaType, Callable[[RegisteredSchema], Convert]] = {
    SchemaType.AVRO: _avro_writer,
    SchemaType.JSON: _json_writer,
    SchemaType.PROTOBUF: _protobuf_writer,
}


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=str)


def _avro_value(schema: AvroSchema, part: Any, value: Any) -> Any:
    """A value of JSON as fastavro wants it."""
    if isinstance(part, Named):
        part = schema.names[part.name]
    match part:
        case Union(union):
            return None if value is None else _branch_value(schema, union, value)
        case Record():
            return {
                each.name: _avro_value(schema, each.type, value[each.name])
                for each in part.fields
                if each.name in value
            } | {name: each for name, each in value.items() if name not in {one.name for one in part.fields}}
        case Array(items):
            return [_avro_value(schema, items, each) for each in value]
        case Map(values):
            return {name: _avro_value(schema, values, each) for name, each in value.items()}
        case Enum():
            return value
    return _plain_value(part, value)


def _branch_value(schema: AvroSchema, union: tuple[Any, ...], value: Any) -> Any:
    """Of the first branch that takes it."""
    import fastavro
    from fastavro.validation import validate

    from headrace.registered.avro import as_json, branches

    problem: Exception | None = None
    for each in branches(Union(union)):
        part = schema.names[each.name] if isinstance(each, Named) else each
        try:
            found = _avro_value(schema, part, value)
            own = fastavro.parse_schema(as_json(AvroSchema(part, schema.names), logical_types=_LOGICAL_TYPES))
            validate(found, own, raise_errors=True)
            return (part.name, found) if isinstance(part, Definition) else found
        except Exception as error:  # the next one may take it
            problem = error
    raise ValueError(f"{value!r} is of no branch of the union: {problem}")


def _plain_value(part: Primitive | Fixed, value: Any) -> Any:
    from headrace.registered.avro import decimal_of

    if decimal_of(part) is not None:
        try:
            return Decimal(value)
        except DecimalException as error:
            raise ValueError(f"{value!r} is not a decimal") from error
    logical = str(part.properties.get("logicalType", "")).removesuffix("-micros").removesuffix("-millis")
    if isinstance(value, str) and logical in _TIMES:
        return _TIMES[logical](value)
    if isinstance(part, Fixed) or part.name == "bytes":
        return base64.b64decode(value, validate=True)
    if isinstance(value, Decimal) and part.name in ("float", "double"):
        return float(value)
    return value


def _timestamp(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


_TIMES: dict[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "local-timestamp": datetime.fromisoformat,
    "time": time.fromisoformat,
    "timestamp": _timestamp,
}
