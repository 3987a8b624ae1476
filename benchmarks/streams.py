"""A topic drained to a sink that discards: with Headrace, and in plain PySpark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.measurements import Sample, Side
from benchmarks.processes import cpu_s
from headrace.java import fetch_jars
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.settings import pipeline_settings
from headrace.pipeline.sinks import Discard
from headrace.pipeline.sinks.sink import OutputMode
from headrace.pipeline.spark.session import CONNECTOR, ROCKSDB, local_cores

MASTER = "local[2]"
ROWS_PER_BATCH = 500_000

PROGRESS_KEPT = {"spark.sql.streaming.numRecentProgressUpdates": "10000"}
"""For a session whose batches are examined one by one: by default Spark keeps the last hundred."""


def read_headrace(
    spark: SparkSession,
    topic: str,
    schema: str,
    *,
    event_time: str = "at",
    watermark: str = "10 minutes",
    rows_per_batch: int = ROWS_PER_BATCH,
) -> DataFrame:
    rows = read_topic(
        spark,
        topic,
        schema=schema,
        event_time=event_time,
        watermark=watermark,
        key=None,
        options={"maxOffsetsPerTrigger": str(rows_per_batch)},
    )
    return rows.select(*column_names(schema))


def read_by_hand(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    schema: str,
    *,
    event_time: str | None = "at",
    watermark: str = "10 minutes",
    rows_per_batch: int | None = ROWS_PER_BATCH,
) -> DataFrame:
    """Without an event time the stream has no watermark; without a bound, a batch reads all available records."""
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )
    if rows_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(rows_per_batch))
    raw = reader.load()
    parsed = raw.select(F.from_json(F.col("value").cast("string"), schema).alias("event")).select("event.*")
    return parsed if event_time is None else parsed.withWatermark(event_time, watermark)


def session_of(side: Side, bootstrap: str, folder: Path) -> SparkSession:
    if side is not Side.SPARK:
        return session("benchmark", master=MASTER, bootstrap=bootstrap, data_dir=folder / "data")
    return _plain_session()


def _plain_session() -> SparkSession:
    """A careful Spark session without Headrace: the connector, state on disk, no more tasks than cores."""
    jars = ",".join(str(jar) for jar in sorted(fetch_jars(CONNECTOR).glob("*.jar")))
    return (
        SparkSession.builder.master(MASTER)
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", pipeline_settings().driver_memory)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(local_cores(MASTER)))
        .config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .getOrCreate()
    )


def column_names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(",")]


def drain_headrace(name: str, rows: DataFrame, *, output_mode: OutputMode) -> None:
    Job(name, rows, Discard(), mode="batch", output_mode=output_mode).start().wait()


def drain_by_hand(folder: Path, name: str, rows: DataFrame, *, output_mode: str) -> None:
    query = (
        rows.writeStream.format("noop")
        .outputMode(output_mode)
        .option("checkpointLocation", str(folder / "by-hand" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """The duration of a piece of work, and the CPU time of this process and of its children (Java, workers)."""

    seconds: float
    cpu_s: float

    def figures(self, name: str, events: int) -> dict[str, float]:
        """Records per second under `name`, and CPU seconds for a million records under `cpu_figure(name)`."""
        return {name: events / self.seconds, cpu_figure(name): self.cpu_s / events * 1e6}


def cpu_figure(name: str) -> str:
    return f"{name} CPU s/M"


def sample_of(figures: Mapping[str, float], name: str) -> Sample:
    return Sample(value=figures[name], broker_cpu_s_per_million=figures.get(cpu_figure(name)))


def timed(work: Callable[[], None]) -> Took:
    cpu_before_s, began_s = cpu_s(os.getpid()), time.monotonic()
    work()
    return Took(seconds=time.monotonic() - began_s, cpu_s=cpu_s(os.getpid()) - cpu_before_s)


def wait_for_batch(query: StreamingQuery, batch_id: int) -> int:
    """Wait for this batch; returns the last completed batch, which may be a later one."""
    while True:
        failure = query.exception()
        if failure is not None:
            raise failure
        progress = query.lastProgress
        if progress is not None and progress["batchId"] >= batch_id:
            return int(progress["batchId"])
        time.sleep(0.01)
