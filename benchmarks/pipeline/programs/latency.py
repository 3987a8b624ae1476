"""The latency in ms of an event through a job, from a topic to a topic: in micro-batches and in real-time mode."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.broker.load import create_topic
from benchmarks.event_topics import PARTITIONS
from benchmarks.measurements import Side
from benchmarks.pipeline.events import SCHEMA
from benchmarks.pipeline.programs.topic_sink import KEY, as_messages
from benchmarks.streams import read_by_hand, session_of
from headrace.pipeline import Job, read_topic
from headrace.pipeline.job import Mode
from headrace.pipeline.sinks import Topic

MICRO_BATCH = "micro-batch"
REALTIME = "realtime"
MODES = (MICRO_BATCH, REALTIME)
CHECKPOINT_INTERVAL = "30 seconds"


def start_headrace(spark: SparkSession, mode: Mode, source: str, target: str) -> Any:
    rows = read_topic(spark, source, schema=SCHEMA, key=None).select("user", "url", "at", "ms")
    # Real-time mode uses Spark's own sink, with Spark's own guarantee.
    sink = Topic(target, key=KEY, guarantee="exactly-once" if mode == MICRO_BATCH else "at-least-once")
    interval = None if mode == MICRO_BATCH else CHECKPOINT_INTERVAL
    return Job(target, rows, sink, mode=mode, interval=interval).start()


def start_by_hand(
    spark: SparkSession, mode: str, source: str, target: str, bootstrap: str, folder: Path
) -> Any:
    rows = read_by_hand(spark, bootstrap, source, SCHEMA, event_time=None, rows_per_batch=None)
    # Any: pyspark's types do not have real-time mode.
    writer: Any = (
        as_messages(rows)
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", target)
        .option("checkpointLocation", str(folder / "by-hand" / target))
    )
    if mode == REALTIME:
        writer = writer.outputMode("update").trigger(realTime=CHECKPOINT_INTERVAL)
    return writer.start()


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    bootstrap = arguments["bootstrap"]
    spark = session_of(Side(arguments["side"]), bootstrap, folder)
    figures: dict[str, float] = {}
    for mode in arguments["modes"]:
        source, target = (f"{mode}-{end}-{uuid.uuid4().hex[:8]}" for end in ("from", "to"))
        for topic in (source, target):
            create_topic(bootstrap, topic, partitions=1 if mode == REALTIME else PARTITIONS)
        if arguments["side"] == Side.SPARK:
            running = start_by_hand(spark, mode, source, target, bootstrap, folder)
        else:
            running = start_headrace(spark, mode, source, target)
        measured = measure(bootstrap, source, target, arguments["events"], arguments["rate"])
        figures |= {f"{mode}-{name}": figure for name, figure in measured.items()}
        running.stop()
    return figures


def measure(bootstrap: str, source: str, target: str, events: int, rate: int) -> dict[str, float]:
    """Run the client in its own process, so that it shares no interpreter with the job."""
    client = [sys.executable, "-m", "benchmarks.pipeline.programs.latency_client"]
    arguments = {"bootstrap": bootstrap, "source": source, "target": target, "events": events, "rate": rate}
    done = subprocess.run([*client, json.dumps(arguments)], stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
