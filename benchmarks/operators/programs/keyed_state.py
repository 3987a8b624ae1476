"""Counts by key and hour, every change published: the keyed-state core, one state call per key, and Spark's own window.

The rows come from Parquet files, which cost next to nothing to read; results are discarded. Rows per second, over
batches that find state of earlier ones. Spark's own window publishes changes in update mode, without panes.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headrace import operators as op
from headrace.pipeline import session

BATCHES = 4
FILES_PER_BATCH = 2
SCHEMA = "key STRING, at TIMESTAMP, ms BIGINT"
COUNT = StructType([StructField("n", LongType())])


class CountByKey(StatefulProcessor):
    """As Spark's documentation has it: a state of its own for every key."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", COUNT)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        before = self._count.get()
        count = (before[0] if before else 0) + sum(1 for _ in rows)
        self._count.update((count,))
        yield Row(key=key[0], n=count)

    def close(self) -> None:
        pass


def write_rows(spark: SparkSession, folder: Path, rows: int, keys: int) -> None:
    """One file after the other, so that every batch has its own part of the hour."""
    files = BATCHES * FILES_PER_BATCH
    spark.range(0, rows, numPartitions=files).selectExpr(
        f"'user-' || pmod(xxhash64(id), {keys}) AS key",
        f"timestamp_millis(1700002800000 + id * 3600000 div {rows}) AS at",
        "pmod(xxhash64(id, 1), 1000) AS ms",
    ).write.parquet(str(folder))


def read_rows(spark: SparkSession, folder: Path) -> DataFrame:
    files = str(FILES_PER_BATCH)
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(str(folder))
    return rows.withWatermark("at", "1 hour")


def core(rows: DataFrame) -> DataFrame:
    trigger = op.Trigger(early=1, panes="accumulating")
    return rows.transform(op.Tumbling("1 hour", by="key", aggregate={"n": "count(*)"}, trigger=trigger))


def core_retracting(rows: DataFrame) -> DataFrame:
    trigger = op.Trigger(early=1)
    return rows.transform(op.Tumbling("1 hour", by="key", aggregate={"n": "count(*)"}, trigger=trigger))


def per_key(rows: DataFrame) -> DataFrame:
    output = StructType([StructField("key", StringType()), *COUNT])
    return rows.groupBy("key").transformWithState(CountByKey(), output, "update", "none")


def native(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key", F.window("at", "1 hour")).count()


WAYS = {"core": core, "core-retracting": core_retracting, "per-key": per_key, "native": native}


def measure(rows: DataFrame, way: str, checkpoint: Path) -> dict[str, float]:
    query = (
        WAYS[way](rows)
        .writeStream.format("noop")
        .outputMode("append" if way.startswith("core") else "update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [json.loads(each.json) for each in query.recentProgress]
    with_rows = [each for each in batches if each["numInputRows"]]
    # The first batch starts Python workers and compiles; that is paid once, and not measured.
    measured = with_rows[1:]
    seconds = sum(each["durationMs"]["triggerExecution"] for each in measured) / 1000
    return {"rate": sum(each["numInputRows"] for each in measured) / seconds}


def main() -> None:
    arguments = json.loads(sys.argv[1])
    folder = Path(arguments["folder"])
    spark = session("bench-keyed-state", master="local[2]", data_dir=folder / "data")
    figures: dict[str, float] = {}
    for keys in arguments["keys"]:
        files = folder / f"rows-{keys}"
        write_rows(spark, files, arguments["rows"], keys)
        for way in arguments["ways"]:
            began_s = time.monotonic()
            rate = measure(read_rows(spark, files), way, folder / f"checkpoint-{way}-{keys}")["rate"]
            figures[f"{way}-{keys}"] = rate
            print(
                f"{way} {keys:,} keys: {rate:,.0f} rows/s ({time.monotonic() - began_s:.0f} s)",
                file=sys.stderr,
            )
    spark.stop()
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
