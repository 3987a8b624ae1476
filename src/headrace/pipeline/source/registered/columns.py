"""Records with the id of a registered schema, as columns of Spark.

Python decodes them in Arrow batches. Avro of the versions that a subject had when the source was created is decoded by
Spark itself, which is faster; then Python gets nothing but the records of later versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StringType, StructType

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.registered.avro_columns import LOGICAL_TYPES
from headrace.pipeline.source.registered.decoding import columns_of, decode_batches, spark_units
from headrace.pipeline.source.registered.subjects import ReaderSchema
from headrace.registered.avro import as_json, has_choices
from headrace.registered.framing import PREFIX_BYTES, prefix
from headrace.registered.schema import RegisteredSchema
from headrace.schemas.avro.types import AvroSchema, Record
from headrace.schemas.definition import SchemaType

ARRIVED = "__headrace_arrived"
VALUE = "value"
"""The column of a schema that is no record."""

_TO_THE_END = 2**31 - 1


class Decoded(Struct, frozen=True, kw_only=True):
    """`stages` are columns that are added one after the other, as for every format."""

    stages: tuple[tuple[str, Column], ...]
    fields: tuple[tuple[str, Column], ...]
    whole: Column
    """All fields as one column, or the value that is no record."""
    is_unreadable: Column
    problem: Column
    """Why a record is unreadable; for bad records only."""


def decoded(reader: ReaderSchema, column: str, *, stage: str) -> Decoded:
    """The records in the column. The names of the stages begin with `stage`."""
    kind = _kind(reader)
    record, slow, fast = F.col(column), F.col(f"{stage}_python"), F.col(f"{stage}_spark")
    own = _spark_expression(reader, column, kind)
    create: Any = arrow_udf  # its types do not know structs
    decode = create(_decoder(reader.to_text()), _result_type(kind)).asNondeterministic()
    if own is None:
        stages: tuple[tuple[str, Column], ...] = ((f"{stage}_python", decode(record)),)
        whole, is_bad = slow.getField("row"), slow.getField("problem").isNotNull()
        fields = tuple((name, whole.getField(name)) for name in _names(kind))
        problem = slow.getField("problem")
    else:
        is_own = F.col(f"{stage}_is_own")
        is_known = F.coalesce(_is_of([each.id for each in _writers(reader)], record), F.lit(False))
        stages = (
            (f"{stage}_is_own", is_known),
            (f"{stage}_spark", own),
            (f"{stage}_python", decode(F.when(~is_own, record))),
        )
        fields = tuple(
            (name, F.when(is_own, fast.getField(name)).otherwise(slow.getField("row").getField(name)))
            for name in _names(kind)
        )
        whole = F.struct(*[each.alias(name) for name, each in fields])
        whole = F.when(record.isNotNull(), whole)
        is_bad = F.when(is_own, fast.getField(ARRIVED).isNull()).otherwise(
            slow.getField("problem").isNotNull()
        )
        problem = F.when(is_own, decode(record).getField("problem")).otherwise(slow.getField("problem"))
        problem = F.coalesce(problem, F.lit("not Avro of its schema"))
    return Decoded(
        stages=stages,
        fields=fields or ((VALUE, whole),),
        whole=whole,
        is_unreadable=record.isNotNull() & is_bad,
        problem=F.when(record.isNotNull() & is_bad, problem),
    )


def _kind(reader: ReaderSchema) -> DataType:
    try:
        return from_arrow_type(spark_units(columns_of(reader).type))
    except HeadraceError as error:
        raise BadSource(error.message, hint=error.hint) from error


def _decoder(reader_text: str) -> Any:
    def decode(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return decode_batches(reader_text, batches)

    return decode


def _result_type(kind: DataType) -> StructType:
    return StructType().add("row", kind).add("problem", StringType())


def _names(kind: DataType) -> list[str]:
    return kind.fieldNames() if isinstance(kind, StructType) else []


def _writers(reader: ReaderSchema) -> list[RegisteredSchema]:
    return list({each.id: each for each in (*reader.writers, reader.registered)}.values())


def _is_of(ids: list[int], record: Column) -> Column:
    return F.substring(record, 1, PREFIX_BYTES).isin([prefix(each) for each in ids])


def _spark_expression(reader: ReaderSchema, column: str, kind: DataType) -> Column | None:
    """From records to rows with one more field, `ARRIVED`, which is null if a record is damaged. None if Spark would
    read these schemas otherwise than Python."""
    if reader.registered.schema.type is not SchemaType.AVRO:
        return None
    schema = reader.registered.schema.avro()
    if not isinstance(schema.root, Record) or has_choices(schema):
        return None
    expected, record = _schema_text(schema, with_arrived=True), F.col(column)
    body = F.substring(record, PREFIX_BYTES + 1, _TO_THE_END)
    options = {"mode": "PERMISSIVE", "avroSchema": expected, "datetimeRebaseMode": "CORRECTED"}
    try:
        found = [
            F.when(_is_of([each.id], record), from_avro(body, _schema_text(each.schema.avro()), options))
            for each in _writers(reader)
        ]
        whole = F.coalesce(*found)
        binary = F.lit(None).cast("binary").alias(column)
        actual = SparkSession.active().range(0).select(binary).select(whole).schema[0].dataType
    except (PySparkException, HeadraceError):
        return None
    assert isinstance(actual, StructType)
    own = StructType([each for each in actual.fields if each.name != ARRIVED])
    return whole if own.simpleString() == kind.simpleString() else None


def _schema_text(schema: AvroSchema, *, with_arrived: bool = False) -> str:
    found = as_json(schema, logical_types=[logical for _, logical in LOGICAL_TYPES])
    if with_arrived:
        found["fields"].append({"name": ARRIVED, "type": "boolean", "default": True})
    return json.dumps(found)
