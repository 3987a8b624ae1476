"""Rows that the `Topic` sink writes with the schema of a registry, read by Confluent's deserializers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format
from pyspark.sql import DataFrame, SparkSession

from headrace.dead_letters import REASON_HEADER
from headrace.pipeline import BadSink, Job, read_topic
from headrace.pipeline.sinks import Topic
from headrace.registered.protobuf import Messages
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType
from tests.compatibility.topic_contents import read_to_end

CreateTopic = Callable[..., str]

COLUMNS = (
    "id BIGINT, name STRING, price DECIMAL(9,2), at TIMESTAMP, day DATE, raw BINARY, ok BOOLEAN, ratio DOUBLE, "
    "tags ARRAY<STRING>, counts MAP<STRING, INT>, ship_to STRUCT<city: STRING, zip: INT>"
)
AT = datetime(2026, 11, 15, 10, 30, 0, 123_456, tzinfo=UTC).replace(tzinfo=None)  # as Spark has it
FULL = (
    1,
    "tea",
    Decimal("12.50"),
    AT,
    date(2026, 1, 2),
    b"\0\xff",
    True,
    1.5,
    ["a", "b"],
    {"a": 1},
    ("Graz", 8010),
)
EMPTY = (2, *(None,) * 10)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([FULL, EMPTY], COLUMNS).coalesce(1)


def written(rows: DataFrame, topic: str, registry: str, bootstrap: str, **options: Any) -> list[bytes]:
    """What a job writes; in the topic are no other records."""
    Job(
        f"to-{topic}", rows, Topic(topic, key="id", registry=registry, bootstrap=bootstrap, **options)
    ).start().wait()
    return [each.value() for each in read_to_end(bootstrap, topic, isolation_level="read_committed")]


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_confluents_deserializer_reads_the_avro_of_a_job(
    rows: DataFrame, topic: str, registry: str, client: SchemaRegistryClient, bootstrap: str
) -> None:
    first, second = written(rows, topic, registry, bootstrap, format="avro-registry")
    deserialize: Any = AvroDeserializer(client)
    found = deserialize(first, value_of(topic))
    assert found == {
        **dict(zip(rows.columns, FULL, strict=True)),
        "at": AT.replace(tzinfo=UTC),
        "ship_to": {"city": "Graz", "zip": 8010},
    }
    assert deserialize(second, value_of(topic)) == dict(zip(rows.columns, EMPTY, strict=True))
    assert first[:5] == b"\0" + client.get_latest_version(f"{topic}-value").schema_id.to_bytes(4)  # type: ignore[union-attr]


def test_confluents_deserializer_reads_the_json_of_a_job(
    rows: DataFrame, topic: str, registry: str, client: SchemaRegistryClient, bootstrap: str
) -> None:
    first, second = written(rows, topic, registry, bootstrap, format="json-registry")
    schema = client.get_latest_version(f"{topic}-value").schema
    deserialize: Any = JSONDeserializer(schema.schema_str, schema_registry_client=client)
    assert deserialize(first, value_of(topic)) == {
        "id": 1,
        "name": "tea",
        "price": 12.5,
        "at": "2026-11-15T10:30:00.123456Z",
        "day": "2026-01-02",
        "raw": "AP8=",
        "ok": True,
        "ratio": 1.5,
        "tags": ["a", "b"],
        "counts": {"a": 1},
        "ship_to": {"city": "Graz", "zip": 8010},
    }
    assert deserialize(second, value_of(topic)) == dict(zip(rows.columns, EMPTY, strict=True))


def test_confluents_deserializer_reads_the_protobuf_of_a_job(
    rows: DataFrame, topic: str, registry: str, client: SchemaRegistryClient, bootstrap: str
) -> None:
    first, second = written(rows, topic, registry, bootstrap, format="protobuf-registry")
    text = client.get_latest_version(f"{topic}-value").schema.schema_str or ""
    messages = Messages(SchemaText(text=text, type=SchemaType.PROTOBUF).protobuf())
    deserialize: Any = ProtobufDeserializer(
        messages.kind(messages.chosen(None)), {"use.deprecated.format": False}
    )
    assert json_format.MessageToDict(
        deserialize(first, value_of(topic)), preserving_proto_field_name=True
    ) == {
        "id": "1",
        "name": "tea",
        "price": "12.50",
        "at": "2026-11-15T10:30:00.123456Z",
        "day": "2026-01-02",
        "raw": "AP8=",
        "ok": True,
        "ratio": 1.5,
        "tags": ["a", "b"],
        "counts": {"a": 1},
        "ship_to": {"city": "Graz", "zip": 8010},
    }
    assert json_format.MessageToDict(deserialize(second, value_of(topic))) == {"id": "2"}


@pytest.mark.slow
@pytest.mark.parametrize("format", ["avro-registry", "json-registry", "protobuf-registry"])
def test_job_reads_what_another_wrote_and_columns_may_be_added_and_reordered(
    format: Any, rows: DataFrame, spark: SparkSession, topic: str, registry: str, bootstrap: str
) -> None:
    written(rows.drop("name"), topic, registry, bootstrap, format=format)
    Job(
        f"more-{topic}",
        rows.select("name", *rows.drop("name").columns),
        Topic(topic, format=format, registry=registry, bootstrap=bootstrap),
    ).start().wait()
    found = read_topic(spark, topic, format=format, registry=registry, bounded=True)
    values = found.select("id", "name", "ratio", "tags", "counts", "ship_to.zip", "at", "raw").orderBy(
        "_offset"
    )
    full = (1, "tea", 1.5, ["a", "b"], {"a": 1}, 8010, AT, bytearray(b"\0\xff"))
    none: Any = [] if format == "protobuf-registry" else None
    empty: Any = (2, None, None, none, none and {} if none is None else {}, None, None, None)
    assert [tuple(each) for each in values.collect()] == [(1, None, *full[2:]), empty, full, empty]


def test_schema_that_the_subject_rejects_ends_the_job_before_its_first_batch(
    rows: DataFrame, topic: str, registry: str, bootstrap: str
) -> None:
    written(rows, topic, registry, bootstrap, format="avro-registry")
    changed = rows.selectExpr("id", "cast(ratio AS STRING) AS ratio")
    with pytest.raises(
        BadSink, match=rf"{topic}-value rejects the schema of its rows: .*incompatible"
    ) as raised:
        Job(f"again-{topic}", changed, Topic(topic, format="avro-registry", registry=registry)).start()
    assert "compatibility level" in raised.value.hint
    assert len(read_to_end(bootstrap, topic, isolation_level="read_committed")) == 2


@pytest.mark.slow
def test_row_that_violates_the_given_schema_is_a_dead_letter(
    spark: SparkSession, create_topic: CreateTopic, registry: str, bootstrap: str
) -> None:
    given: dict[Any, str] = {
        "avro-registry": json.dumps(
            {
                "type": "record",
                "name": "A",
                "fields": [{"name": "state", "type": {"type": "enum", "name": "S", "symbols": ["NEW"]}}],
            }
        ),
        "json-registry": json.dumps({"type": "object", "properties": {"state": {"enum": ["NEW"]}}}),
        "protobuf-registry": 'syntax = "proto3"; message A { enum S { NEW = 0; } S state = 1; }',
    }
    rows = spark.createDataFrame([("NEW",), ("OLD",)], "state STRING").coalesce(1)
    reasons = []
    for format, schema in given.items():
        topic = create_topic(suffix=f"-{format}")
        Job(
            topic, rows, Topic(topic, format=format, schema=schema, registry=registry, bootstrap=bootstrap)
        ).start().wait()
        assert len(read_to_end(bootstrap, topic, isolation_level="read_committed")) == 1
        (letter,) = read_to_end(bootstrap, f"dlq.{topic}", isolation_level="read_committed")
        assert "OLD" in letter.value().decode()
        reasons.append(dict(letter.headers())[REASON_HEADER].decode())
    assert reasons == [
        "the row does not fit the Avro schema",
        'its JSON violates the schema: /state: "OLD" is not one of "NEW"',
        "the row is not a A: state: 'OLD' is not one of NEW",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"format": "avro-registry", "schema": '{"type": "record", "name": "A", "fields": []}'},
            "has no field id",
        ),
        ({"format": "avro-registry", "schema": "{"}, "not JSON"),
        ({"format": "protobuf-registry", "schema": 'syntax = "proto3"; message A {}'}, "A has no field id"),
        ({"format": "json-registry", "schema": '{"type": 7}'}, "rejects the schema"),
    ],
)
def test_given_schema_that_does_not_fit_the_rows_is_rejected(
    rows: DataFrame, topic: str, registry: str, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(BadSink, match=problem):
        Job(f"x-{topic}", rows, Topic(topic, registry=registry, **options)).start()


def test_showing_the_graph_of_a_job_registers_nothing(
    rows: DataFrame, topic: str, registry: str, client: SchemaRegistryClient
) -> None:
    job = Job(f"x-{topic}", rows, Topic(topic, format="avro-registry", registry=registry))
    assert topic in str(job._repr_mimebundle_())
    assert f"{topic}-value" not in client.get_subjects()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_job_that_is_killed_writes_each_record_and_each_dead_letter_once(
    spark: SparkSession,
    topic: str,
    registry: str,
    client: SchemaRegistryClient,
    bootstrap: str,
    send: Any,
    tmp_path: Path,
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    later = {**schema, "fields": [*schema["fields"], {"name": "more", "type": "int", "default": 0}]}
    for number, each in enumerate((schema, later)):
        serialize: Any = AvroSerializer(client, json.dumps(each))
        ids = range(50 * number, 50 * number + 50)
        send(
            topic, *(serialize({"id": each, "more": 1}, value_of(topic)) for each in ids), b"bad %d" % number
        )
    command = [
        sys.executable,
        "-m",
        "tests.pipeline.sinks.registered.converting_job",
        bootstrap,
        registry,
        topic,
        str(tmp_path),
    ]
    for point in ("before-write", "before-letters", "after-write", ""):
        done = subprocess.run([*command, point], check=False, cwd=Path(__file__).parents[4])
        assert done.returncode == (-signal.SIGKILL if point else 0)
    rows = read_topic(spark, f"{topic}.out", format="protobuf-registry", registry=registry, bounded=True)
    assert sorted(row["id"] for row in rows.collect()) == list(range(100))
    letters = read_to_end(bootstrap, f"dlq.{topic}", isolation_level="read_committed")
    assert [each.value() for each in letters] == [b"bad 0", b"bad 1"]
