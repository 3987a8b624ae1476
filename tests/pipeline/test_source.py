"""Topics as DataFrames: what comes as columns, from where to where, and what is left out."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headrace.pipeline import Pattern, plan, read_topic
from headrace.pipeline.formats import BadSource
from headrace.pipeline.positions import BadPosition, NoSuchTopic
from headrace.pipeline.source import EVENT_TIME_KEY, METADATA_COLUMNS, SourceSpec, bad_count
from headrace.pipeline.source_options import without_batch_bound
from tests.compatibility.topic_contents import write
from tests.pipeline.conftest import CreateTopic

CLICK = "user STRING, visits INT, at TIMESTAMP"
ANN = {"user": "ann", "visits": 1, "at": "2026-01-01T00:00:00Z"}
BOB = {"user": "bob", "visits": 2, "at": "2026-01-01T01:00:00+01:00"}

Send = Callable[..., None]


def users(rows: DataFrame) -> list[str | None]:
    # Not sorted by Spark: it would read everything twice to find the ranges, and count twice.
    return [row["user"] for row in sorted(rows.collect(), key=lambda row: (row["_topic"], row["_offset"]))]


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
        "at": datetime(2026, 1, 1),  # noqa: DTZ001 Spark gives times in the session's zone, which is UTC
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


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"{", id="not JSON"),
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[1, 2]", id="an array"),
        pytest.param(b'{"user": "\xff"}', id="not UTF-8"),
        pytest.param(b'{"user": "ann", "visits": 1.5}', id="a fraction for an integer"),
        pytest.param(b'{"user": "ann", "at": "yesterday"}', id="not a time"),
    ],
)
def test_what_is_not_json_of_the_schema_is_left_out_and_counted(
    spark: SparkSession, topic: str, send: Send, value: bytes
) -> None:
    send(topic, ANN, value, BOB)

    rows = read_topic(spark, topic, schema=CLICK, bounded=True)

    assert users(rows) == ["ann", "bob"]
    assert bad_count(spec_of(rows)) == 1
