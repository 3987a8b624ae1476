"""Topics as DataFrames: what comes as columns, from where to where, and what is left out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.errors import NoSuchTopic
from headrace.pipeline import Pattern, read_topic
from headrace.pipeline.errors import BadSource
from headrace.pipeline.graph import plan
from headrace.pipeline.source.options import BATCH_BOUND, without_batch_bound
from headrace.pipeline.source.read_topic import bad_count
from headrace.pipeline.source.spec import SourceSpec
from headrace.plan_names import EVENT_TIME
from tests.compatibility.topic_contents import write
from tests.pipeline.conftest import TIMEOUT_S, CreateTopic

CLICK = "user STRING, visits INT, at TIMESTAMP"
ANN = {"user": "ann", "visits": 1, "at": "2026-01-01T00:00:00Z"}
BOB = {"user": "bob", "visits": 2, "at": "2026-01-01T01:00:00+01:00"}

PERSON = {
    "type": "record",
    "name": "Person",
    "fields": [{"name": "user", "type": ["null", "string"]}, {"name": "visits", "type": ["null", "int"]}],
}
PERSON_WITH_CITY = {
    **PERSON,
    "fields": [*PERSON["fields"], {"name": "city", "type": "string", "default": "unknown"}],
}

Send = Callable[..., None]


def users(rows: DataFrame) -> list[str | None]:
    # Not sorted by Spark: it would read everything twice to find the ranges, and count twice.
    return [row["user"] for row in sorted(rows.collect(), key=lambda row: (row["_topic"], row["_offset"]))]


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["_offset"] for row in rows.collect())


def spec_of(rows: DataFrame) -> SourceSpec:
    (source,) = plan.read(rows).sources
    assert source.spec is not None
    return source.spec


def drained(rows: DataFrame, folder: Path) -> list[Any]:
    """All rows that a stream gives until it has caught up."""
    seen: list[Any] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def avro(schema: dict[str, Any], record: dict[str, Any], *, number: int | None = None) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, schema, record)
    prefix = b"" if number is None else b"\0" + number.to_bytes(4)
    return prefix + written.getvalue()


def test_the_names_of_the_package_are_what_they_say_in_a_fresh_process() -> None:
    """A submodule that is called like one of them would take its place as soon as somebody imports it."""
    program = (
        "from headrace.pipeline import Job, read_topic, session, Pattern\n"
        "import headrace.pipeline.source.read_topic, headrace.pipeline.spark.session, headrace.pipeline.job\n"
        "from headrace.pipeline import Job as J, read_topic as r, session as s, Pattern as P\n"
        "print(*[type(each).__name__ for each in (Job, read_topic, session, Pattern, J, r, s, P)])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[1:3] == done.stdout.split()[5:7] == ["function", "function"]
    assert "module" not in done.stdout


def test_importing_the_package_does_not_import_spark() -> None:
    program = "import sys, headrace.pipeline, headrace.pipeline.settings; print('pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_records_come_with_their_fields_and_where_they_were(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    write(
        bootstrap,
        topic,
        [
            {
                "value": json.dumps(ANN),
                "key": "k",
                "headers": [("h", b"\x01"), ("h", None)],
                "timestamp": 1_000,
            }
        ],
    )

    (row,) = read_topic(spark, topic, schema=CLICK, bounded=True).collect()

    assert row.asDict(recursive=True) == {
        "user": "ann",
        "visits": 1,
        "at": datetime(2026, 1, 1),  # noqa: DTZ001 Spark gives times without a zone; the session's is UTC
        "_key": "k",
        "_headers": [{"key": "h", "value": b"\x01"}, {"key": "h", "value": None}],
        "_topic": topic,
        "_partition": 0,
        "_offset": 0,
        "_timestamp": datetime(1970, 1, 1, 0, 0, 1),  # noqa: DTZ001
    }


def test_a_stream_gives_the_same_rows_as_bounded_reading(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path
) -> None:
    send(topic, ANN, b"{", BOB, {**BOB, "visits": "many"}, None, {})

    bounded = read_topic(spark, topic, schema=CLICK, bounded=True)
    streaming = read_topic(spark, topic, schema=CLICK)

    assert bounded.schema == streaming.schema
    assert bad_count(spec_of(bounded)) is None
    assert drained(streaming, tmp_path) == bounded.collect()
    assert users(bounded) == ["ann", "bob", None, None]
    assert bad_count(spec_of(bounded)) == 2


def test_what_is_not_json_of_the_schema_is_left_out_and_counted(
    spark: SparkSession, topic: str, send: Send
) -> None:
    bad = [
        b"{",
        b"",
        b"null",
        b"[1, 2]",
        b'{"user": "\xff"}',
        b'{"user": "ann", "visits": 1.5}',
        b'{"user": "ann", "at": "yesterday"}',
    ]
    send(topic, ANN, *bad, BOB)

    rows = read_topic(spark, topic, schema=CLICK, bounded=True)

    assert users(rows) == ["ann", "bob"]
    assert bad_count(spec_of(rows)) == len(bad)


def test_a_record_without_a_required_field_or_its_event_time_is_left_out(
    spark: SparkSession, topic: str, send: Send
) -> None:
    send(topic, ANN, {**ANN, "user": None}, {"visits": 1, "at": ANN["at"]}, {"user": "carl"}, None, BOB)

    rows = read_topic(
        spark, topic, schema="user STRING NOT NULL, at TIMESTAMP", event_time="at", bounded=True
    )

    assert users(rows) == ["ann", "bob"]
    assert bad_count(spec_of(rows)) == 4


@pytest.mark.parametrize("event_time", ["at", "_timestamp"])
def test_the_event_time_is_marked_and_a_stream_has_its_watermark(
    spark: SparkSession, topic: str, event_time: str
) -> None:
    for bounded in (True, False):
        rows = read_topic(
            spark, topic, schema=CLICK, event_time=event_time, watermark="10 minutes", bounded=bounded
        )
        marked = {field.name: field.metadata for field in rows.schema.fields if field.metadata}
        assert list(marked) == [event_time]
        assert marked[event_time][EVENT_TIME] is True
        assert marked[event_time].get("spark.watermarkDelayMs") == (None if bounded else 600_000)


def test_avro_is_read_and_bytes_that_are_not_avro_are_left_out(
    spark: SparkSession, topic: str, send: Send
) -> None:
    nothing_but_nulls = avro(PERSON, {"user": None, "visits": None})
    send(topic, avro(PERSON, {"user": "ann", "visits": 1}), b"\xff\xff", nothing_but_nulls, b"\x02", None)

    rows = read_topic(spark, topic, schema=PERSON, format="avro", bounded=True)

    assert [(row["user"], row["visits"]) for row in rows.collect()] == [
        ("ann", 1),
        (None, None),
        (None, None),
    ]
    assert bad_count(spec_of(rows)) == 2


def test_avro_of_a_registry_is_read_by_the_schema_that_each_record_names(
    spark: SparkSession, topic: str, send: Send
) -> None:
    old = avro(PERSON, {"user": "ann", "visits": 1}, number=7)
    new = avro(PERSON_WITH_CITY, {"user": "bob", "visits": 2, "city": "Rome"}, number=8)
    send(topic, old, new, b"\0\0\0\0\x09" + old[5:], b"\x01" + old[1:], b"\0")

    schemas = {7: PERSON, 8: PERSON_WITH_CITY}
    rows = read_topic(spark, topic, schema=schemas, format="avro-registry", bounded=True)

    assert [(row["user"], row["city"]) for row in rows.collect()] == [("ann", "unknown"), ("bob", "Rome")]
    assert bad_count(spec_of(rows)) == 3


def test_text_and_binary_are_one_column_and_text_has_to_be_utf_8(
    spark: SparkSession, topic: str, send: Send
) -> None:
    send(topic, "é".encode(), b"\xff", None)

    text = read_topic(spark, topic, format="text", bounded=True, key=None)
    binary = read_topic(spark, topic, format="binary", bounded=True, key="binary")

    assert [row["value"] for row in text.collect()] == ["é", None]
    assert "_key" not in text.columns
    assert [row["value"] for row in binary.collect()] == ["é".encode(), b"\xff", None]
    assert bad_count(spec_of(text)) == 1


def test_changes_are_rows_with_what_happened_to_them(spark: SparkSession, topic: str, send: Send) -> None:
    ann = {"id": 1, "name": "ann"}
    source = {"ts_ms": 1_000, "table": "people"}
    send(
        topic,
        {"before": None, "after": ann, "op": "c", "ts_ms": 2_000, "source": source},
        {
            "schema": {"type": "struct"},
            "payload": {"before": ann, "after": {**ann, "name": "Ann"}, "op": "u", "ts_ms": 3_000},
        },
        {"before": {"id": 1}, "after": None, "op": "d", "ts_ms": 4_000, "source": source},
        None,  # the tombstone behind the delete
        {"before": None, "after": None, "op": "t", "ts_ms": 5_000},
        {"before": None, "after": {"id": "one"}, "op": "c"},
        {"id": 1, "name": "ann"},
    )

    rows = read_topic(
        spark, topic, schema="id INT NOT NULL, name STRING NOT NULL", format="changes", bounded=True
    )

    assert rows.columns[:5] == ["id", "name", "op", "before", "_change_ts"]
    changes = [(row["id"], row["name"], row["op"], row["_change_ts"].second) for row in rows.collect()]
    assert changes == [(1, "ann", "c", 1), (1, "Ann", "u", 3), (1, None, "d", 1)]
    assert [row["before"] and row["before"]["name"] for row in rows.collect()] == [None, "ann", None]
    assert bad_count(spec_of(rows)) == 3


def test_several_topics_and_patterns_are_read_but_never_dead_letters(
    spark: SparkSession, create_topic: CreateTopic, send: Send, name: str, tmp_path: Path
) -> None:
    one, two = create_topic(suffix=".one"), create_topic(suffix=".two")
    send(one, ANN)
    send(two, BOB)
    send(create_topic(prefix="dlq.", suffix=".one"), ANN)
    pattern = Pattern(rf".*{name}\..*")

    assert users(read_topic(spark, [one, two], schema=CLICK, bounded=True)) == ["ann", "bob"]
    assert users(read_topic(spark, pattern, schema=CLICK, bounded=True)) == ["ann", "bob"]
    streamed = drained(read_topic(spark, pattern, schema=CLICK), tmp_path)
    assert sorted(row["user"] for row in streamed) == ["ann", "bob"]


def test_reading_begins_and_ends_at_offsets_and_times(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path
) -> None:
    topic = create_topic(partitions=2)
    records = [{"value": str(number), "timestamp": 1_000_000 + number * 1_000} for number in range(6)]
    write(bootstrap, topic, [{**record, "partition": 0} for record in records])
    write(bootstrap, topic, [{**records[0], "partition": 1}])

    def read(**where: Any) -> list[tuple[int, str]]:
        rows = read_topic(spark, topic, format="text", bounded=True, **where).collect()
        return sorted((row["_partition"], row["value"]) for row in rows)

    at = [datetime.fromtimestamp(1_000 + second, UTC) for second in range(7)]
    everything = [(0, str(number)) for number in range(6)] + [(1, "0")]
    assert read() == everything
    assert read(start={topic: {0: 4}}) == [(0, "4"), (0, "5"), (1, "0")]
    assert read(end={topic: {0: 2, 1: 0}}) == [(0, "0"), (0, "1")]
    assert read(start=at[2], end=at[4]) == [(0, "2"), (0, "3")]
    assert read(start=at[6]) == []
    assert read(start="latest") == []
    streamed = drained(read_topic(spark, topic, format="text", start={topic: {0: 5}}), tmp_path / "offset")
    assert sorted((row["_partition"], row["value"]) for row in streamed) == [(0, "5"), (1, "0")]
    streamed = drained(read_topic(spark, topic, format="text", start=at[4]), tmp_path / "time")
    assert sorted((row["_partition"], row["value"]) for row in streamed) == [(0, "4"), (0, "5")]


def test_a_bounded_source_ends_where_the_topic_ended_when_it_was_made(
    spark: SparkSession, topic: str, send: Send
) -> None:
    send(topic, ANN)
    rows = read_topic(spark, topic, schema=CLICK, bounded=True)
    send(topic, BOB)

    assert users(rows) == ["ann"]


def test_what_was_not_committed_is_not_read(
    spark: SparkSession, bootstrap: str, topic: str, name: str
) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    for value, end in (("undone", producer.abort_transaction), ("done", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        end(TIMEOUT_S)

    rows = read_topic(spark, topic, format="text", bounded=True).collect()

    assert [row["value"] for row in rows] == ["done"]


def test_rows_for_real_time_mode_have_no_bound_on_batches_and_are_otherwise_the_same(
    spark: SparkSession, topic: str
) -> None:
    rows = read_topic(spark, topic, schema=CLICK, event_time="at", watermark="1 minute").where("visits > 1")

    unbound = without_batch_bound(rows)

    def options(of: DataFrame) -> dict[str, str]:
        leaf = of._jdf.queryExecution().analyzed().collectLeaves().apply(0)
        return dict(leaf.extraOptions().asCaseSensitiveMap())

    assert unbound.schema == rows.schema
    assert BATCH_BOUND in options(rows)
    assert options(unbound) == {key: value for key, value in options(rows).items() if key != BATCH_BOUND}
    assert spec_of(unbound) == spec_of(rows)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"format": "xml"}, BadSource, "the formats are json"),
        ({}, BadSource, "needs a schema"),
        ({"schema": "user STRNG"}, BadSource, "as in CREATE TABLE"),
        ({"schema": "user STRING", "format": "text"}, BadSource, "leave schema out"),
        ({"schema": "{", "format": "avro"}, BadSource, "no Avro schema"),
        ({"schema": {1: PERSON}, "format": "avro"}, BadSource, "avro-registry"),
        ({"schema": CLICK, "watermark": "1 minute"}, BadSource, "needs an event time"),
        ({"schema": CLICK, "event_time": "when"}, BadSource, "the columns are user, visits, at, _key"),
        ({"schema": CLICK, "event_time": "visits"}, BadSource, "has to be a TIMESTAMP"),
        ({"schema": "_offset INT"}, BadSource, "'_offset'"),
        ({"schema": CLICK, "key": "json"}, BadSource, "binary"),
        ({"schema": CLICK, "end": "latest"}, BadSource, "bounded=True"),
        ({"schema": CLICK, "start": "yesterday"}, BadSource, '"earliest", "latest", a datetime'),
        ({"schema": CLICK, "start": datetime(2026, 1, 1)}, BadSource, "time zone"),  # noqa: DTZ001
        ({"schema": CLICK, "start": {"no-such-topic": {0: 1}}, "bounded": True}, BadSource, "partition 0"),
    ],
)
def test_a_source_that_cannot_be_says_what_can(
    spark: SparkSession, topic: str, arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as raised:
        read_topic(spark, topic, **arguments)

    assert says in str(raised.value)


def test_a_topic_that_is_not_there_is_named(spark: SparkSession) -> None:
    with pytest.raises(NoSuchTopic, match="headrace topic create no-such-topic"):
        read_topic(spark, "no-such-topic", format="text", bounded=True)
