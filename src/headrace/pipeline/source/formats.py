"""How the value of a record becomes columns, and when it is bad: one function per format, with Spark expressions.

No Python runs for a record. `reasons` finds out why a record is bad, for bad records only.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.reasons import CHANGE_OPERATIONS, REGISTRY_PREFIX_BYTES
from headrace.pipeline.source.registered.columns import ARRIVED, decoded
from headrace.pipeline.source.registered.subjects import ReaderSchema, reader_schema_of
from headrace.pipeline.source.spec import Format
from headrace.plan_names import CHANGE_TIME

# Internal columns, with names that no payload has.
PARSED = "__headrace_parsed"
ENVELOPE = "__headrace_envelope"
KEY_ROW = "__headrace_key_row"
KEY = "__headrace_key"
CORRUPT = "__headrace_corrupt"

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Parser(Struct, frozen=True, kw_only=True):
    """The way from Kafka's own columns (`key`, `value`, …) to the payload's.

    `stages` are columns that are added one after the other; `fields` are the payload, computed from them. A record that
    `is_skipped` is neither payload nor bad.
    """

    stages: tuple[tuple[str, Column], ...]
    fields: tuple[tuple[str, Column], ...]
    is_unreadable: Column
    """The value is not of the format, or not of the schema."""
    missing: tuple[tuple[str, Column], ...] = ()
    """Fields that have to be there, and whether they are not."""
    misfits: tuple[tuple[str, Column], ...] = ()
    """Fields, and whether they make a value unreadable. Expensive, so for bad records only."""
    is_skipped: Column | None = None
    problem: Column | None = None
    """Why a value is unreadable, in words, where the format finds it out itself. For bad records only."""
    key: Column | None = None
    """The key, if it is decoded too."""

    @property
    def is_bad(self) -> Column:
        return functools.reduce(operator.or_, [each for _, each in self.missing], self.is_unreadable)


def parser_for(
    format: Format,
    schema: str | None,
    required: Sequence[str] = (),
    *,
    tombstones: bool = False,
    key_schema: str | None = None,
) -> Parser:
    """`schema` is a text as `schema_text` gives it. A record without one of the `required` fields is bad.

    With `tombstones`, a change event without a value deletes the row of its key. With `key_schema`, a record whose key
    is not of this registered schema is bad.
    """
    if tombstones:
        parser = _with_tombstones(_changes(schema, tuple(required)), _row_type(schema))
    elif (reader := reader_schema_of(schema)) is not None:
        parser = _registered(reader, tuple(required))
    else:
        parser = _FORMATS[format](schema, tuple(required))
    key = reader_schema_of(key_schema)
    return parser if key is None else _with_key(parser, key)


def schema_text(format: Format, schema: Any) -> str | None:
    """The user's schema, checked, as JSON of Spark or of Avro."""
    if format not in get_args(Format):
        raise BadSource(
            f"format={format!r} is not known", hint=f"the formats are {', '.join(get_args(Format))}"
        )
    if format in ("text", "binary"):
        if schema is not None:
            raise BadSource(f"{format} has no schema", hint="do not set schema; the column is called value")
        return None
    if format in ("json-registry", "protobuf-registry"):
        raise BadSource(f"the schema of {format} is that of a registry", hint="do not set schema")
    if schema is None:
        raise BadSource(
            f"format={format!r} needs a schema",
            hint='schema="user STRING, at TIMESTAMP"; format="text" and "binary" need none',
        )
    if format in ("avro", "avro-registry"):
        return json.dumps(_avro_schemas(format, schema))
    return _struct(schema).json()


def _struct(schema: Any) -> StructType:
    if isinstance(schema, StructType):
        return schema
    try:
        parsed = StructType.fromDDL(str(schema))
    except PySparkException as error:
        raise BadSource(
            f"this is no schema: {schema!r} ({str(error).splitlines()[0]})",
            hint='write it as in CREATE TABLE: schema="user STRING NOT NULL, at TIMESTAMP"',
        ) from error
    if not isinstance(parsed, StructType):
        raise BadSource(f"this is no schema of a row: {schema!r}", hint='schema="user STRING, at TIMESTAMP"')
    return parsed


def _avro_schemas(format: str, schema: Any) -> dict[str, Any]:
    """By the registry's number; one without numbers is under `*`."""
    by_number = isinstance(schema, dict) and bool(schema) and all(isinstance(key, int) for key in schema)
    if by_number and format == "avro":
        raise BadSource(
            "schemas by number are for records that carry one",
            hint='format="avro-registry", or a single schema',
        )
    given = schema if by_number else {"*": schema}
    return {str(number): _avro_schema(each) for number, each in given.items()}


def _avro_schema(schema: Any) -> Any:
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else schema
    except ValueError as error:
        raise BadSource(
            f"this is no Avro schema: {error}",
            hint='{"type": "record", "name": …, "fields": […]}, or its JSON',
        ) from error
    if not isinstance(parsed, dict) or parsed.get("type") != "record" or not parsed.get("fields"):
        raise BadSource(
            "the Avro schema is not one of a record", hint='{"type": "record", "name": …, "fields": […]}'
        )
    return parsed


def _registered(reader: ReaderSchema, required: tuple[str, ...]) -> Parser:
    found = decoded(reader, "value", stage=PARSED)
    return Parser(
        stages=found.stages,
        fields=found.fields,
        is_unreadable=found.is_unreadable,
        missing=_missing(required, dict(found.fields).__getitem__),
        problem=found.problem,
    )


def _with_key(parser: Parser, reader: ReaderSchema) -> Parser:
    found = decoded(reader, "key", stage=KEY)
    problem = F.lit(None) if parser.problem is None else parser.problem
    return replace(
        parser,
        stages=(*parser.stages, *found.stages),
        is_unreadable=parser.is_unreadable | found.is_unreadable,
        problem=F.coalesce(F.concat(F.lit("key: "), found.problem), problem),
        key=found.whole,
    )


def _json(schema: str | None, required: tuple[str, ...]) -> Parser:
    row = _row_type(schema)
    parsed = F.col(PARSED)
    return Parser(
        stages=((PARSED, _from_json(row)),),
        fields=tuple((name, parsed.getField(name)) for name in row.fieldNames()),
        is_unreadable=_is_not_json(parsed, row),
        missing=_missing(required + _not_null(row), parsed.getField),
        misfits=_misfits(row, lambda single: single),
    )


def _text(schema: str | None, required: tuple[str, ...]) -> Parser:
    text = F.col("value").cast("string")
    return Parser(stages=(), fields=(("value", text),), is_unreadable=_yes(~F.is_valid_utf8(text)))


def _binary(schema: str | None, required: tuple[str, ...]) -> Parser:
    return Parser(stages=(), fields=(("value", F.col("value")),), is_unreadable=F.lit(False))


def _changes(schema: str | None, required: tuple[str, ...]) -> Parser:
    """Debezium's envelope, with or without the wrapper that repeats the schema in every record."""
    row = _row_type(schema)
    wrapped = _wrapped(_envelope_type(row))
    parsed, envelope = F.col(PARSED), F.col(ENVELOPE)
    after_or_before = F.coalesce(envelope.getField("after"), envelope.getField("before"))
    change = envelope.getField("op")
    happened_ms = F.coalesce(envelope.getField("source").getField("ts_ms"), envelope.getField("ts_ms"))
    is_no_change = ~F.coalesce(change.isin(*CHANGE_OPERATIONS), F.lit(False)) | after_or_before.isNull()
    in_row = tuple(name for name in required if name != CHANGE_TIME)
    # A delete has what the database logs of the old row, which may be its key alone.
    missing = [
        (name, is_missing & (change != "d"))
        for name, is_missing in _missing(in_row + _not_null(row), after_or_before.getField)
    ]
    if CHANGE_TIME in required:
        missing.append((CHANGE_TIME, happened_ms.isNull()))
    return Parser(
        stages=(
            (PARSED, _from_json(wrapped)),
            (ENVELOPE, _unwrapped(parsed, _envelope_type(row))),
        ),
        fields=(
            *((name, after_or_before.getField(name)) for name in row.fieldNames()),
            ("op", change),
            ("before", envelope.getField("before")),
            (CHANGE_TIME, F.timestamp_millis(happened_ms)),
        ),
        is_unreadable=_is_not_json(parsed, wrapped) | is_no_change,
        missing=tuple((name, _yes(is_missing)) for name, is_missing in missing),
        misfits=_misfits(row, lambda single: _wrapped(_envelope_type(single))),
        is_skipped=F.col("value").isNull(),  # the tombstone after a delete; the delete is enough
    )


def _with_tombstones(changes: Parser, row: StructType) -> Parser:
    """A tombstone becomes a delete, with the fields that its key has. One whose key is no JSON object is skipped: no
    row can be found by it."""
    is_tombstone = F.col("value").isNull()
    nullable = StructType([StructField(field.name, field.dataType) for field in row.fields])
    parsed = F.from_json(F.col("key").cast("string"), _wrapped(nullable))
    of_key = {name: F.col(KEY_ROW).getField(name) for name in row.fieldNames()}
    instead = {**of_key, "op": F.lit("d"), CHANGE_TIME: F.col("timestamp")}
    return replace(
        changes,
        stages=(*changes.stages, (KEY_ROW, F.when(is_tombstone, _unwrapped(parsed, nullable)))),
        fields=tuple(
            (name, F.when(is_tombstone, instead[name]).otherwise(column) if name in instead else column)
            for name, column in changes.fields
        ),
        is_unreadable=~is_tombstone & changes.is_unreadable,
        missing=tuple((name, ~is_tombstone & is_missing) for name, is_missing in changes.missing),
        is_skipped=is_tombstone
        & functools.reduce(operator.and_, [column.isNull() for column in of_key.values()]),
    )


def _wrapped(content: StructType) -> StructType:
    """Both shapes in one: missing fields are null."""
    return StructType([*content.fields]).add("payload", content)


def _unwrapped(parsed: Column, content: StructType) -> Column:
    bare = F.struct(*[parsed.getField(name).alias(name) for name in content.fieldNames()])
    return F.coalesce(parsed.getField("payload"), bare)


def _envelope_type(row: StructType) -> StructType:
    times = StructType().add("ts_ms", LongType())
    rows = StructType().add("before", row).add("after", row)
    return rows.add("op", StringType()).add("ts_ms", LongType()).add("source", times)


def _avro(schema: str | None, required: tuple[str, ...]) -> Parser:
    (record,) = json.loads(schema or "{}").values()
    return _avro_parser(_from_avro(F.col("value"), writer=record, reader=record), record, required)


def _avro_registry(schema: str | None, required: tuple[str, ...]) -> Parser:
    """Each record decoded by the schema whose number it carries, and read as the newest of them."""
    by_number = json.loads(schema or "{}")
    is_prefixed = (F.length("value") >= REGISTRY_PREFIX_BYTES) & (F.hex(F.substring("value", 1, 1)) == "00")
    number = F.conv(F.hex(F.substring("value", 2, 4)), 16, 10).cast("bigint")
    body = F.expr(f"substring(value, {REGISTRY_PREFIX_BYTES + 1})")
    if "*" in by_number:
        newest = by_number["*"]
        return _avro_parser(
            F.when(is_prefixed, _from_avro(body, writer=newest, reader=newest)), newest, required
        )
    newest = by_number[max(by_number, key=int)]
    decoded = [
        F.when(is_prefixed & (number == int(each)), _from_avro(body, writer=writer, reader=newest))
        for each, writer in by_number.items()
    ]
    return _avro_parser(F.coalesce(*decoded), newest, required)


def _avro_parser(decoded: Column, record: Any, required: tuple[str, ...]) -> Parser:
    parsed = F.col(PARSED)
    return Parser(
        stages=((PARSED, decoded),),
        fields=tuple((field["name"], parsed.getField(field["name"])) for field in record["fields"]),
        is_unreadable=F.col("value").isNotNull() & parsed.getField(ARRIVED).isNull(),
        missing=_missing(required, parsed.getField),
    )


def _from_avro(data: Column, *, writer: Any, reader: Any) -> Column:
    """Spark gives a row of nulls for bytes that are not Avro, which may also be a row that has nothing but nulls. So
    the reader's schema gets one more field, whose default is there after every successful decoding."""
    arrived = {"name": ARRIVED, "type": "boolean", "default": True}
    extended = {**reader, "fields": [*reader["fields"], arrived]}
    return from_avro(data, json.dumps(writer), {"mode": "PERMISSIVE", "avroSchema": json.dumps(extended)})


def _from_json(row: StructType) -> Column:
    """As a struct whose last field is there if not all of it could be parsed."""
    extended = StructType([*row.fields]).add(CORRUPT, StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    return F.from_json(F.col("value").cast("string"), extended, options)


def _is_not_json(parsed: Column, row: StructType) -> Column:
    """There is a value, and it is not JSON of the schema."""
    is_parsed = parsed.isNotNull() & parsed.getField(CORRUPT).isNull()
    return F.col("value").isNotNull() & ~(is_parsed & _is_read_as_written(parsed, row))


def _is_read_as_written(parsed: Column, row: StructType) -> Column:
    """Spark replaces invalid UTF-8 by U+FFFD. The bytes are checked only if a text contains one: that is slow."""
    is_utf8 = F.is_valid_utf8(F.col("value").cast("string"))
    if any(isinstance(field.dataType, StructType | ArrayType | MapType) for field in row.fields):
        return is_utf8
    texts = [parsed.getField(field.name) for field in row.fields if isinstance(field.dataType, StringType)]
    is_suspect = [_yes(F.contains(text, F.lit(_REPLACEMENT))) for text in texts]
    return ~functools.reduce(operator.or_, is_suspect, F.lit(False)) | is_utf8


def _missing(required: Sequence[str], field: Callable[[str], Column]) -> tuple[tuple[str, Column], ...]:
    return tuple((name, field(name).isNull()) for name in dict.fromkeys(required))


def _misfits(row: StructType, wrap: Callable[[StructType], StructType]) -> tuple[tuple[str, Column], ...]:
    """Each field is parsed alone, in a document of the same shape."""
    parsed = {field.name: _from_json(wrap(StructType([field]))) for field in row.fields}
    return tuple((name, _yes(each.getField(CORRUPT).isNotNull())) for name, each in parsed.items())


def _not_null(row: StructType) -> tuple[str, ...]:
    return tuple(field.name for field in row.fields if not field.nullable)


def _row_type(schema: str | None) -> StructType:
    return StructType.fromJson(json.loads(schema or "{}"))


def _yes(condition: Column) -> Column:
    """Neither true nor false is not true."""
    return F.coalesce(condition, F.lit(False))


_FORMATS: dict[Format, Callable[[str | None, tuple[str, ...]], Parser]] = {
    "json": _json,
    "avro": _avro,
    "avro-registry": _avro_registry,
    "text": _text,
    "binary": _binary,
    "changes": _changes,
}
