"""Topics as DataFrames: columns, positions, and bad records."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.errors import RequestFailed
from headrace.operators import BadOperator
from headrace.pipeline import Pattern, read_topic
from headrace.pipeline.errors import BadSource
from headrace.pipeline.graph import plan
from headrace.pipeline.source.bad_counts import bad_count
from headrace.pipeline.source.read_topic import AHEAD, ANCIENT, bad_records
from headrace.pipeline.source.spec import SourceSpec
from headrace.plan_names import EVENT_TIME
from tests.compatibility.topic_contents import write
from tests.pipeline.conftest import TIMEOUT_S, CreateTopic

CLICK = "user STRING, visits INT, at TIMESTAMP"
ANN = {"user": "ann", "visits": 1, "at": "2026-01-01T00:00:00Z"}
BOB = {"user": "bob", "visits": 2, "at": "2026-01-01T01:00:00+01:00"}

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
    """All rows of a stream up to the end of its topics."""
    seen: list[Any] = []
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: seen.extend(batch.collect()))
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return seen


def test_names_of_the_package_are_no_modules() -> None:
    """A submodule that is called like one of them would replace it when it is imported."""
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


def test_record_has_its_fields_and_metadata(spark: SparkSession, bootstrap: str, topic: str) -> None:
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


def test_stream_has_the_same_rows_as_bounded_reading(
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


def test_record_without_a_required_field_or_its_event_time_is_skipped(
    spark: SparkSession, topic: str, send: Send
) -> None:
    send(topic, ANN, {**ANN, "user": None}, {"visits": 1, "at": ANN["at"]}, {"user": "carl"}, None, BOB)

    rows = read_topic(
        spark, topic, schema="user STRING NOT NULL, at TIMESTAMP", event_time="at", bounded=True
    )

    assert users(rows) == ["ann", "bob"]
    assert bad_count(spec_of(rows)) == 4


def test_event_time_that_is_too_far_ahead_or_before_every_watermark_is_skipped(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    """The second record is a day after its timestamp, the third 10,000 years; the last has no timestamp to compare."""
    recorded_ms = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
    times = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "12026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"]
    records = [
        {"value": json.dumps({**ANN, "user": user, "at": at})} for user, at in zip("abcd", times, strict=True)
    ]
    write(bootstrap, topic, [{**each, "timestamp": recorded_ms} for each in records[:3]])
    write(bootstrap, topic, [{**records[3], "timestamp": 0}])

    def read(max_ahead: str | None) -> list[str | None]:
        rows = read_topic(
            spark, topic, schema=CLICK, event_time="at", event_time_max_ahead=max_ahead, bounded=True
        )
        return users(rows.drop("at"))  # Python has no year 12026

    assert read("1 hour") == ["a", "d"]
    assert read("24 hours") == ["a", "b", "d"]
    assert read(None) == ["a", "b", "c", "d"]
    rows = read_topic(spark, topic, schema=CLICK, event_time="at", bounded=True)
    raw = (
        spark.read.format("kafka")
        .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": topic})
        .load()
    )
    (bad,) = bad_records(raw, spec_of(rows)).collect()
    assert (bad[AHEAD], bad[ANCIENT]) == ("+12026-01-01 00:00:00", None)
    write(bootstrap, topic, [{"value": json.dumps({**ANN, "at": "1969-12-31T23:59:59Z"})}])
    assert read("24 hours")[-1] == "ann"
    stream = read_topic(spark, topic, schema=CLICK, event_time="at", watermark="1 hour")
    bad, ancient = bad_records(raw, spec_of(stream)).sort("offset").collect()
    assert (ancient[AHEAD], ancient[ANCIENT]) == (None, "1969-12-31 23:59:59")


@pytest.mark.parametrize("event_time", ["at", "_timestamp"])
def test_event_time_is_marked_and_a_stream_has_its_watermark(
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


@pytest.mark.parametrize(("key", "keys"), [("string", ["k"]), ("binary", [b"k"]), (None, [])])
def test_key_is_read_as_declared(
    spark: SparkSession, bootstrap: str, topic: str, key: Any, keys: list[Any]
) -> None:
    write(bootstrap, topic, [{"value": b"\xff", "key": "k"}])

    (row,) = read_topic(spark, topic, format="binary", bounded=True, key=key).collect()

    assert row["value"] == b"\xff"
    assert [row[name] for name in row.asDict() if name == "_key"] == keys


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


def test_reading_starts_and_ends_at_offsets_and_times(
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


def test_bounded_source_ends_at_the_end_of_its_creation(spark: SparkSession, topic: str, send: Send) -> None:
    send(topic, ANN)
    rows = read_topic(spark, topic, schema=CLICK, bounded=True)
    send(topic, BOB)

    assert users(rows) == ["ann"]


def test_uncommitted_records_are_not_read(spark: SparkSession, bootstrap: str, topic: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(TIMEOUT_S)
    for value, end in (("undone", producer.abort_transaction), ("done", producer.commit_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        end(TIMEOUT_S)

    rows = read_topic(spark, topic, format="text", bounded=True).collect()

    assert [row["value"] for row in rows] == ["done"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, BadSource, "needs a schema"),
        ({"schema": CLICK, "watermark": "1 minute"}, BadSource, "needs an event time"),
        ({"schema": CLICK, "event_time": "when"}, BadSource, "the columns are user, visits, at, _key"),
        ({"schema": CLICK, "event_time": "visits"}, BadSource, "has to be a TIMESTAMP"),
        ({"schema": CLICK, "event_time_max_ahead": "far"}, BadOperator, "10 seconds"),
        ({"schema": "_offset INT"}, BadSource, "'_offset'"),
        ({"schema": CLICK, "key": "json"}, BadSource, "binary"),
        ({"schema": CLICK, "end": "latest"}, BadSource, "bounded=True"),
        ({"schema": CLICK, "start": "yesterday"}, BadSource, '"earliest", "latest", a datetime'),
        ({"schema": CLICK, "start": datetime(2026, 1, 1)}, BadSource, "time zone"),  # noqa: DTZ001
        ({"schema": CLICK, "start": {"no-such-topic": {0: 1}}, "bounded": True}, BadSource, "partition 0"),
    ],
)
def test_error_names_the_choices(
    spark: SparkSession, topic: str, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        read_topic(spark, topic, **arguments)

    assert message in str(raised.value)


def test_missing_topic_is_named(spark: SparkSession) -> None:
    with pytest.raises(RequestFailed, match="headrace topic create no-such-topic"):
        read_topic(spark, "no-such-topic", format="text", bounded=True)
