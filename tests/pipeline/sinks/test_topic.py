"""`Topic`: how a row becomes a message."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from headrace.pipeline import read_topic
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks import Topic
from tests.compatibility.topic_contents import read_committed
from tests.pipeline.sinks.test_topic_writer import BY_TASKS, PATIENCE_S, fence, numbers, reject_none


def test_row_is_json_without_the_columns_of_the_source(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT 'ann' AS user, 7 AS n, TIMESTAMP '2026-11-15 12:00:00.000001' AS at, 3L AS _offset"
    )
    sink = Topic(name, key="user", bootstrap=bootstrap)
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none) == 1
    (message,) = read_committed(bootstrap, name)
    assert message.key() == b"ann"
    assert json.loads(message.value()) == {"user": "ann", "n": 7, "at": "2026-11-15T12:00:00.000001Z"}


def test_column_is_written_as_it_is_with_headers(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT X'00FF' AS body, 12 AS id, 'x' AS part, "
        "array(named_struct('key', 'trace', 'value', X'01'), named_struct('key', 'none', 'value', NULL)) AS h"
    )
    for number, driver_rows_max in enumerate((Topic(name).driver_rows_max, BY_TASKS)):
        sink = Topic(
            f"{name}-{number}",
            key=["id", "part"],
            value="body",
            headers="h",
            bootstrap=bootstrap,
            driver_rows_max=driver_rows_max,
        )
        opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none)
        (message,) = read_committed(bootstrap, f"{name}-{number}")
        assert json.loads(message.key()) == {"id": 12, "part": "x"}
        assert message.value() == b"\x00\xff"
        assert message.headers() == [("trace", b"\x01"), ("none", None)]


ORDER = json.dumps(
    {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "user", "type": ["string", "null"]},
            {"name": "n", "type": ["int", "null"]},
            {"name": "tags", "type": [{"type": "array", "items": ["string", "null"]}, "null"]},
        ],
    }
)


def test_row_as_avro_is_read_by_read_topic_and_by_another_library(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    rows = spark.sql(
        "SELECT * FROM VALUES ('ann', 7, array('a', NULL), 1L), (NULL, NULL, NULL, 2L) AS t(user, n, tags, _offset)"
    )
    sink = Topic(name, key="user", format="avro", bootstrap=bootstrap)
    assert opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none) == 2
    written = [("ann", 7, ["a", None]), (None, None, None)]
    back = read_topic(spark, name, schema=ORDER, format="avro", bounded=True, bootstrap=bootstrap)
    assert [tuple(row) for row in back.select("user", "n", "tags").orderBy("_offset").collect()] == written
    schema = fastavro.parse_schema(json.loads(ORDER))
    read_by_other: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(message.value()), schema)
        for message in read_committed(bootstrap, name)
    ]
    assert [tuple(row.values()) for row in read_by_other] == written


def test_deleted_row_becomes_a_tombstone(spark: SparkSession, bootstrap: str, name: str, opened: Any) -> None:
    rows = spark.sql("SELECT * FROM VALUES ('u', 'a', 1), ('d', 'b', 2), (NULL, 'c', 3) AS t(op, id, n)")
    sink = Topic(name, key="id", tombstones=True, bootstrap=bootstrap)
    opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none)
    values = {message.key(): message.value() for message in read_committed(bootstrap, name)}
    assert values == {b"a": b'{"id":"a","n":1}', b"b": None, b"c": b'{"id":"c","n":3}'}


def test_key_goes_to_the_partition_that_sparks_own_sink_chooses(
    spark: SparkSession, bootstrap: str, name: str, opened: Any
) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in (name, f"{name}-native"):
        admin.create_topics([NewTopic(topic, 5, 1)])[topic].result(PATIENCE_S)
    rows = numbers(spark, 200)
    sink = Topic(name, key="name", bootstrap=bootstrap)
    opened(sink, rows).write(sink.prepare(rows), fence(0), reject_none)
    native = Topic(f"{name}-native", key="name", bootstrap=bootstrap, guarantee="at-least-once").native()
    assert native is not None
    sink.prepare(rows).write.format(native.format).options(**native.options).save()
    places = [
        {message.key(): message.partition() for message in read_committed(bootstrap, topic)}
        for topic in (name, f"{name}-native")
    ]
    assert len(places[0]) == 200
    assert places[0] == places[1]


@pytest.mark.parametrize(
    ("wrong", "names"),
    [
        ({"name": "a b"}, "a b"),
        ({"guarantee": "once"}, "guarantee"),
        ({"format": "xml"}, "format"),
        ({"compression": "rar"}, "compression"),
        ({"tombstones": True}, "key"),
    ],
)
def test_wrong_option_is_named(wrong: dict[str, Any], names: str) -> None:
    with pytest.raises(BadSink, match=names):
        Topic(wrong.pop("name", "orders"), **wrong)


def test_error_names_the_missing_column_and_the_existing_ones(spark: SparkSession) -> None:
    with pytest.raises(BadSink, match=r"topic orders: the rows have no column user .*id, name"):
        Topic("orders", key="user").prepare(numbers(spark, 1))
