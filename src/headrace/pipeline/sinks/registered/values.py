"""The column of records of a sink: the schema of the rows, registered, and the rows encoded with its id.

Spark writes Avro. JSON is written by Spark and checked in Python, and Protobuf is written in Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import to_avro
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import StructType

from headrace.errors import HeadraceError
from headrace.pipeline import launch
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.json_text import JSON_OPTIONS
from headrace.pipeline.sinks.registered.avro_schema import avro_schema, record_name
from headrace.pipeline.sinks.registered.encoding import RESULT_TYPE, Encoding, encode_batches
from headrace.pipeline.sinks.registered.json_schema import json_schema
from headrace.pipeline.sinks.registered.protobuf_rows import missing_fields
from headrace.pipeline.sinks.registered.protobuf_schema import Numbers, numbers_in, protobuf_schema
from headrace.registered.avro import as_json
from headrace.registered.client import RegistryClient
from headrace.registered.errors import RequestRejected
from headrace.registered.framing import prefix
from headrace.registered.schema import SchemaText
from headrace.schemas.avro.types import Record
from headrace.schemas.definition import Definition, SchemaType

TYPES = {
    "avro-registry": SchemaType.AVRO,
    "json-registry": SchemaType.JSON,
    "protobuf-registry": SchemaType.PROTOBUF,
}

UNREGISTERED = 0
"""The id in the plan of a job that is only shown."""

_NO_MATCH = "the row does not fit the Avro schema"
_LOGICAL_TYPES = (
    "date",
    "timestamp-millis",
    "timestamp-micros",
    "local-timestamp-millis",
    "local-timestamp-micros",
)


class RegisteredValue(Struct, frozen=True, kw_only=True):
    value: Column
    problem: Column | None
    """Why a row is not of the schema; its value is JSON then. None if every row is."""


class Registration(Struct, frozen=True, kw_only=True):
    """What a sink is declared with."""

    format: str
    topic: str
    registry: str
    subject: str
    schema: str | None = None
    """The text that the user gives."""


def registered_value(registration: Registration, row: Column, kind: StructType) -> RegisteredValue:
    """Registers the schema, unless the job is only shown."""
    text = registration.schema or _schema_of_rows(registration, kind)
    schema = SchemaText(text=text, type=TYPES[registration.format])
    if schema.type is SchemaType.AVRO:
        _check_fields(registration, schema, kind)
    if schema.type is SchemaType.PROTOBUF:
        _check_message(registration, schema, kind)
    schema_id = UNREGISTERED if launch.current().explain else _registered(registration, schema)
    if schema.type is SchemaType.AVRO:
        return _avro(schema, schema_id, row, is_given=registration.schema is not None)
    source = F.to_json(row, JSON_OPTIONS) if schema.type is SchemaType.JSON else row
    encoding = Encoding(id=schema_id, schema=schema)
    create: Any = arrow_udf  # its types do not know structs
    found = create(_encoder(encoding.to_text()), RESULT_TYPE)(source)
    return RegisteredValue(value=found.getField("value"), problem=found.getField("problem"))


def _schema_of_rows(registration: Registration, kind: StructType) -> str:
    name = record_name(registration.topic)
    match TYPES[registration.format]:
        case SchemaType.AVRO:
            return json.dumps(avro_schema(kind, name))
        case SchemaType.JSON:
            return json.dumps(json_schema(kind, registration.topic))
    return protobuf_schema(kind, name, _numbers_before(registration, name))


def _numbers_before(registration: Registration, name: str) -> Numbers:
    if launch.current().explain:
        return Numbers()
    try:
        latest = RegistryClient(registration.registry).version(registration.subject)
    except RequestRejected as error:
        if error.is_missing:
            return Numbers()
        raise
    if latest.schema.type is not SchemaType.PROTOBUF:
        return Numbers()
    return numbers_in(latest.schema.protobuf().file, name)


def _check_fields(registration: Registration, schema: SchemaText, kind: StructType) -> None:
    parsed = _parsed(registration, schema)
    if not isinstance(parsed.root, Record):
        raise _no_match(registration, "it is not one of a record")
    fields = {each.name for each in parsed.root.fields}
    if unknown := [each for each in kind.names if each not in fields]:
        raise _no_match(registration, f"it has no field {unknown[0]}")
    columns = set(kind.names)
    if absent := [each for each in fields if each not in columns]:
        raise _no_match(registration, f"the rows have no column {min(absent)}")


def _check_message(registration: Registration, schema: SchemaText, kind: StructType) -> None:
    from headrace.registered.protobuf import Messages

    try:
        messages = Messages(schema.protobuf())
        descriptor = messages.kind(messages.chosen(None)).DESCRIPTOR
    except HeadraceError as error:
        raise _no_match(registration, error.message) from error
    if unknown := missing_fields(descriptor, kind.names):
        raise _no_match(registration, f"{descriptor.full_name} has no field {unknown[0]}")


def _parsed(registration: Registration, schema: SchemaText) -> Any:
    try:
        return schema.avro()
    except HeadraceError as error:
        raise _no_match(registration, error.message) from error


def _no_match(registration: Registration, problem: str) -> BadSink:
    return BadSink(
        f"topic {registration.topic}: the schema does not fit the rows: {problem}",
        hint="change schema=, or the columns; without schema=, it is that of the rows",
    )


def _registered(registration: Registration, schema: SchemaText) -> int:
    try:
        return RegistryClient(registration.registry).register(
            registration.subject, Definition(text=schema.text, type=schema.type)
        )
    except RequestRejected as error:
        raise BadSink(
            f"topic {registration.topic}: {registration.subject} rejects the schema of its rows: {error.message}",
            hint=error.hint,
        ) from error


def _avro(schema: SchemaText, schema_id: int, row: Column, *, is_given: bool) -> RegisteredValue:
    plain = json.dumps(as_json(schema.avro(), logical_types=_LOGICAL_TYPES))
    head, body = F.lit(prefix(schema_id)), to_avro(row, plain)
    if not is_given:
        return RegisteredValue(value=F.concat(head, body), problem=None)
    written = _null_on_failure(body)
    as_text = F.to_json(row, JSON_OPTIONS).cast("binary")
    return RegisteredValue(
        value=F.coalesce(F.concat(head, written), as_text),
        problem=F.when(row.isNotNull() & written.isNull(), F.lit(_NO_MATCH)),
    )


def _null_on_failure(column: Column) -> Column:
    jvm: Any = SparkSession.active()._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # What occurs several times is computed in advance, outside of the attempt; but not what is below a condition.
    guarded: Any = F.when(F.spark_partition_id() >= 0, column)
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(guarded._jc))
    return Column(utils.column(attempt))


def _encoder(encoding_text: str) -> Any:
    def encode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return encode_batches(encoding_text, batches)

    return encode
