"""The same three jobs through Headrace and by hand, drained to a sink that discards: records per second."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measurements import Side
from benchmarks.pipeline.events import EVENTS_TOPIC, SCHEMA, WARMUP_TOPIC
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Discard

ROWS_PER_BATCH = 500_000

WORKS = {
    "pass-through": "pass-through",
    "filter": "filter, one event in ten",
    "windowed-count": "count by url in windows of a minute",
}


def drain_headrace(name: str, rows: DataFrame) -> None:
    Job(name, rows, Discard(), mode="batch", output_mode="update").start().wait()


def drain_by_hand(folder: Path, name: str, rows: DataFrame) -> None:
    query = (
        rows.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "by-hand" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read_headrace(spark: SparkSession, topic: str) -> DataFrame:
    rows = read_topic(
        spark,
        topic,
        schema=SCHEMA,
        event_time="at",
        watermark="10 minutes",
        key=None,
        options={"maxOffsetsPerTrigger": str(ROWS_PER_BATCH)},
    )
    return rows.select("user", "url", "at", "ms")


def read_by_hand(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(ROWS_PER_BATCH))
        .load()
    )
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    return parsed.withWatermark("at", "10 minutes")


def work_on(rows: DataFrame, work: str) -> DataFrame:
    if work == "filter":
        return rows.where("url LIKE 'https://shop.example/%'")
    if work == "windowed-count":
        return rows.groupBy(F.window("at", "1 minute"), "url").count()
    return rows


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    by_hand = arguments["side"] == Side.SPARK
    # One session for both: what is compared is the job, not who finds the jars.
    spark = session("benchmark", bootstrap=arguments["bootstrap"], data_dir=folder / "data")

    def run(topic: str, work: str) -> float:
        name = f"{topic}-{work}"
        started_s = time.monotonic()
        if by_hand:
            drain_by_hand(folder, name, work_on(read_by_hand(spark, arguments["bootstrap"], topic), work))
        else:
            drain_headrace(name, work_on(read_headrace(spark, topic), work))
        return time.monotonic() - started_s

    figures = {}
    for work in arguments["works"]:
        run(WARMUP_TOPIC, work)
        figures[work] = arguments["events"] / run(EVENTS_TOPIC, work)
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
