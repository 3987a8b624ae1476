"""From the start of Python to the first batch in plain PySpark: a session, a topic, a windowed count."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.pipeline.events import SCHEMA


def main(arguments: dict[str, Any]) -> dict[str, float]:
    began_s = time.monotonic() - _process_age_s()
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from headrace.java import fetch_jars
    from headrace.pipeline.spark.session import CONNECTOR

    folder = Path(arguments["folder"])
    jars = ",".join(str(jar) for jar in sorted(fetch_jars(CONNECTOR).glob("*.jar")))
    spark = (
        SparkSession.builder.master("local[*]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    session_s = time.monotonic() - began_s
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", arguments["bootstrap"])
        .option("subscribe", arguments["topic"])
        .option("startingOffsets", "earliest")
        .load()
    )
    events = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")
    counts = events.withWatermark("at", "10 seconds").groupBy(F.window("at", "10 seconds"), "url").count()
    writer = counts.writeStream.format("noop").outputMode("update")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    while not any(each["numInputRows"] for each in query.recentProgress):
        time.sleep(0.02)
    first_s = time.monotonic() - began_s
    query.stop()
    spark.stop()
    return {"spark": session_s, "first": first_s}


def _process_age_s() -> float:
    """The age of this process, including the start of Python."""
    from headrace.cli.demo.job_panel import process_age_ms

    return process_age_ms() / 1000


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
