"""The watermark of a batch, as tasks before the shuffle know it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace.kafka.cluster import Cluster
from headrace.operators.state.planned_watermark import planned_watermark_us
from headrace.operators.state.step import BEGINNING_US
from headrace.pipeline import Job, read_topic
from headrace.testing import Collect
from tests.operators.streams import Stream

pytestmark = pytest.mark.timeout(300)

MINUTE_US = 60_000_000
START_US = 1_772_359_200_000_000
"""2026-03-01T10:00:00Z"""


def planned(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        times = batch.column("at").cast(pa.int64())
        yield pa.record_batch(
            [times, pa.array([planned_watermark_us()] * len(times), pa.int64())], ["at", "us"]
        )


def with_planned(rows: DataFrame) -> DataFrame:
    return rows.select("at").mapInArrow(planned, "at long, us long")


def test_tasks_of_a_job_know_the_watermark_of_their_batch(spark: SparkSession, bootstrap: str) -> None:
    topic = name = f"planned-{uuid.uuid4().hex[:12]}"
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for minute in range(9):
        producer.produce(topic, f'{{"at":"2026-03-01T10:{minute:02}:00Z"}}')
    assert producer.flush(30) == 0
    rows = read_topic(
        spark,
        topic,
        schema="at TIMESTAMP",
        event_time="at",
        watermark="1 minute",
        options={"maxOffsetsPerTrigger": "3"},
    )
    sink = Collect()
    Job(name, with_planned(rows), sink, mode="batch").start().wait()
    found = {(row["at"] - START_US) // MINUTE_US: row["us"] for row in sink.rows}
    # A minute before the newest row of the batches before.
    assert [found[minute] for minute in range(3)] == [BEGINNING_US] * 3
    assert [(found[minute] - START_US) // MINUTE_US for minute in range(3, 9)] == [1, 1, 1, 4, 4, 4]


def test_stream_without_a_job_has_no_planned_watermark(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, with_planned)
    assert [row["us"] for row in stream.send([("ann", 0, 1)])] == [None]
    assert planned_watermark_us() is None, "outside a task"
