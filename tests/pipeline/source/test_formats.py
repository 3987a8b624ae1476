"""How values become columns in each format, and which values are bad."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.errors import BadSource
from headrace.pipeline.source.formats import Parser, parser_for, schema_text
from headrace.pipeline.source.spec import Format

CLICK = "user STRING, visits INT, at TIMESTAMP"
PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "user", "type": ["null", "string"]}, {"name": "visits", "type": ["null", "int"]}],
}
PERSON_WITH_CITY = {
    **PERSON,
    "fields": [*PERSON["fields"], {"name": "city", "type": "string", "default": "unknown"}],
}
BAD = "bad"


def parser(format: Format, schema: Any = None, *required: str) -> Parser:
    return parser_for(format, schema_text(format, schema), required)


def parsed(spark: SparkSession, parser: Parser, *values: Any) -> list[Any]:
    """The fields of each value, or `BAD`; without those that are skipped."""
    content = [json.dumps(each).encode() if isinstance(each, dict) else each for each in values]
    rows = spark.createDataFrame([(each,) for each in content], "value BINARY").coalesce(1)
    for name, column in parser.stages:
        rows = rows.withColumn(name, column)
    if parser.is_skipped is not None:
        rows = rows.where(~parser.is_skipped)
    fields = [column.alias(name) for name, column in parser.fields]
    found = rows.select(parser.is_bad.alias("is_bad"), *fields).collect()
    return [BAD if is_bad else tuple(fields) for is_bad, *fields in found]


def avro(schema: dict[str, Any], record: dict[str, Any], *, number: int | None = None) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, record)
    prefix = b"" if number is None else b"\0" + number.to_bytes(4)
    return prefix + written.getvalue()


def test_value_that_is_not_json_of_the_schema_is_bad(spark: SparkSession) -> None:
    bad = [
        b"{",
        b"",
        b"null",
        b"[1, 2]",
        b'{"user": "\xff"}',
        b'{"user": "ann", "visits": 1.5}',
        b'{"user": "ann", "at": "yesterday"}',
    ]
    good = {"user": "\N{REPLACEMENT CHARACTER}", "visits": 1}
    found = parsed(spark, parser("json", CLICK), good, *bad, {}, None)
    nothing = (None, None, None)
    assert found == [(good["user"], 1, None), *[BAD] * len(bad), nothing, nothing]


def test_record_without_a_required_field_is_bad(spark: SparkSession) -> None:
    required = parser("json", "user STRING NOT NULL, visits INT, at STRING", "at")
    complete = {"user": "ann", "at": "now"}
    found = parsed(
        spark, required, complete, {**complete, "user": None}, {"at": "now"}, {"user": "ann"}, None
    )
    assert found == [("ann", None, "now"), BAD, BAD, BAD, BAD]


def test_bytes_that_are_not_avro_are_bad_and_a_record_of_nulls_is_not(spark: SparkSession) -> None:
    ann, nulls = ({"user": "ann", "visits": 1}, {"user": None, "visits": None})
    values = avro(PERSON, ann), b"\xff\xff", avro(PERSON, nulls), b"\x02", None
    nothing = (None, None)
    assert parsed(spark, parser("avro", PERSON), *values) == [("ann", 1), BAD, nothing, BAD, nothing]


def test_avro_of_a_registry_is_decoded_by_the_schema_that_each_record_names(spark: SparkSession) -> None:
    old = avro(PERSON, {"user": "ann", "visits": 1}, number=7)
    new = avro(PERSON_WITH_CITY, {"user": "bob", "visits": 2, "city": "Rome"}, number=8)
    unknown, unmarked = b"\0\0\0\0\x09" + old[5:], b"\x01" + old[1:]
    both = parser("avro-registry", {7: PERSON, 8: PERSON_WITH_CITY})
    found = parsed(spark, both, old, new, unknown, unmarked, b"\0")
    assert found == [("ann", 1, "unknown"), ("bob", 2, "Rome"), BAD, BAD, BAD]
    assert parsed(spark, parser("avro-registry", PERSON), old, unknown, b"\0") == [("ann", 1)] * 2 + [BAD]


def test_text_has_to_be_utf_8_and_binary_is_anything(spark: SparkSession) -> None:
    values = "é".encode(), b"\xff", None
    assert parsed(spark, parser("text"), *values) == [("é",), BAD, (None,)]
    assert parsed(spark, parser("binary"), *values) == [(each,) for each in values]


def test_change_is_the_row_with_its_operation_and_time(spark: SparkSession) -> None:
    ann = {"id": 1, "name": "ann"}
    source = {"ts_ms": 1_000, "table": "people"}
    values = [
        {"before": None, "after": ann, "op": "c", "ts_ms": 2_000, "source": source},
        {
            "schema": {"type": "struct"},
            "payload": {"before": ann, "after": {**ann, "name": "Ann"}, "op": "u", "ts_ms": 3_000},
        },
        {"before": {"id": 1}, "after": None, "op": "d", "ts_ms": 4_000, "source": source},
        None,  # the tombstone after the delete
        {"before": None, "after": None, "op": "t", "ts_ms": 5_000},
        {"before": None, "after": {"id": "one"}, "op": "c"},
        {"id": 1, "name": "ann"},
    ]
    changes = parser("changes", "id INT NOT NULL, name STRING NOT NULL")
    assert [name for name, _ in changes.fields] == ["id", "name", "op", "before", "_change_ts"]
    *good, first, second, third = parsed(spark, changes, *values)
    assert (first, second, third) == (BAD, BAD, BAD)
    assert [(id, name, op, before and before["name"], at.second) for id, name, op, before, at in good] == [
        (1, "ann", "c", None, 1),
        (1, "Ann", "u", "ann", 3),
        (1, None, "d", None, 1),
    ]


def test_tombstone_is_a_delete_of_its_key_where_it_is_wanted(spark: SparkSession) -> None:
    tombstones = parser_for(
        "changes",
        schema_text("changes", "id INT NOT NULL, name STRING NOT NULL"),
        ("_change_ts",),
        tombstones=True,
    )
    ann = {"before": None, "after": {"id": 1, "name": "ann"}, "op": "c", "ts_ms": 1_000}
    records = [
        (b'{"id":1}', json.dumps(ann).encode()),
        (b'{"id":1}', None),
        (b'{"schema":{},"payload":{"id":2}}', None),
        (b"no JSON", None),
        (None, None),
        (b'{"id":3}', b"no JSON"),
    ]
    raw = spark.createDataFrame(records, "key binary, value binary").withColumn(
        "timestamp", F.timestamp_seconds(F.lit(7))
    )
    for name, column in tombstones.stages:
        raw = raw.withColumn(name, column)
    assert tombstones.is_skipped is not None
    rows = raw.where(~tombstones.is_skipped).select(
        *[column.alias(name) for name, column in tombstones.fields], tombstones.is_bad.alias("is_bad")
    )
    assert [(row.id, row.name, row.op, row.is_bad) for row in rows.collect() if not row.is_bad] == [
        (1, "ann", "c", False),
        (1, None, "d", False),
        (2, None, "d", False),
    ]
    assert [row.is_bad for row in rows.collect()] == [False, False, False, True]
    assert rows.collect()[1]["_change_ts"].second == 7


@pytest.mark.parametrize(
    ("format", "schema", "message"),
    [
        ("xml", None, "the formats are json"),
        ("json", None, "needs a schema"),
        ("json", "user STRNG", "as in CREATE TABLE"),
        ("json", "INT", "no schema"),
        ("json", 17, "no schema"),
        ("text", "user STRING", "text has no schema"),
        ("avro", "{", "no Avro schema"),
        ("avro", {"type": "string"}, "not one of a record"),
        ("avro", {1: PERSON}, "avro-registry"),
    ],
)
def test_schema_that_does_not_fit_its_format_is_rejected(
    spark: SparkSession, format: Format, schema: Any, message: str
) -> None:
    with pytest.raises(BadSource, match=message):
        schema_text(format, schema)
