"""JSON from a topic to a topic: Headrace's exactly-once sink, and Spark's at-least-once sink. Records per second."""

from __future__ import annotations

import json
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.broker.load import check_end_offset, create_topic
from benchmarks.event_topics import PARTITIONS
from benchmarks.measurements import Side
from benchmarks.pipeline.events import EVENTS_TOPIC, SCHEMA
from benchmarks.streams import read_by_hand, read_headrace, session_of
from headrace.pipeline import Job
from headrace.pipeline.sinks import Topic

KEY = "user"


def drain_headrace(name: str, rows: DataFrame, topic: str) -> None:
    Job(name, rows, Topic(topic, key=KEY), mode="batch").start().wait()


def drain_by_hand(folder: Path, name: str, rows: DataFrame, topic: str, bootstrap: str) -> None:
    query = (
        as_messages(rows)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", str(folder / "by-hand" / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def as_messages(rows: DataFrame) -> DataFrame:
    return rows.select(F.col(KEY).alias("key"), F.to_json(F.struct(*rows.columns)).alias("value"))


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    bootstrap = arguments["bootstrap"]
    by_hand = arguments["side"] == Side.SPARK
    spark = session_of(Side(arguments["side"]), bootstrap, folder)

    def run(name: str) -> tuple[str, float]:
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        create_topic(bootstrap, topic, partitions=PARTITIONS)
        started_s = time.monotonic()
        if by_hand:
            rows = read_by_hand(spark, bootstrap, EVENTS_TOPIC, SCHEMA)
            drain_by_hand(folder, name, rows, topic, bootstrap)
        else:
            drain_headrace(name, read_headrace(spark, EVENTS_TOPIC, SCHEMA), topic)
        return topic, time.monotonic() - started_s

    run("warm-up")
    topic, took_s = run("measured")
    if arguments["side"] == Side.SPARK:  # the marker of a transaction has its own offset
        check_end_offset(bootstrap, topic, arguments["events"], partitions=PARTITIONS)
    return {"records_per_s": arguments["events"] / took_s}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
