"""Counts by URL in a job, and questions for them: by Headrace, or by Spark's reader of the state."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.broker.load import create_topic
from benchmarks.measurements import Side
from benchmarks.rpc.programs.asker import percentiles, wait_for
from benchmarks.streams import MASTER
from headrace import operators as op
from headrace.pipeline import Job, answers, read_topic, session
from headrace.pipeline.sinks import Discard

TOPIC = "clicks"


@answers("count")
class Count:
    def partial(self, state: pa.Table, question: dict[str, Any]) -> int | None:
        found = state.filter(pc.equal(state["url"], question["url"]))
        return sum(found["weight"].to_pylist()) if found.num_rows else None  # the number of rows of the group

    def combine(self, partials: list[int], question: dict[str, Any]) -> int:
        return sum(partials)


def load(bootstrap: str, urls: int) -> None:
    create_topic(bootstrap, TOPIC, partitions=2)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 2 * urls}
    )
    for number in range(urls):
        producer.produce(TOPIC, json.dumps({"url": f"/{number}"}))
    assert producer.flush(60) == 0


def main(arguments: dict[str, Any]) -> dict[str, float]:
    bootstrap, folder = arguments["bootstrap"], Path(arguments["folder"])
    load(bootstrap, arguments["urls"])
    spark = session("counts", master=MASTER, bootstrap=bootstrap, data_dir=folder)
    clicks = read_topic(spark, TOPIC, schema="url STRING").select("url")
    if arguments["side"] == Side.SPARK:
        running = Job("counts", clicks.groupBy("url").count(), Discard(), output_mode="update").start()
    else:
        counted = clicks.transform(op.GroupChanges(by="url", aggregate={"n": "count(*)"}))
        running = Job("counts", counted, Discard(), answers=[Count]).start()
    wait_for(lambda: running.status().rows_in >= arguments["urls"])
    asker = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.rpc.programs.asker", json.dumps(arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    before = running.status().batch_id or 0
    if arguments["side"] == Side.SPARK:
        # The other process only clicks.
        times = ask_spark(spark, folder / "jobs" / "counts" / "checkpoint", arguments["questions"])
        figures = percentiles(times)
    else:
        assert asker.stdout is not None
        figures = json.loads(asker.stdout.readline())
        wait_for(lambda: bool(batches_ms(running.query, after=before)))
        figures["batch-and-50"] = statistics.median(batches_ms(running.query, after=before)) + 50
    asker.communicate("")
    running.stop()
    spark.stop()
    return figures


def batches_ms(query: Any, *, after: int) -> list[int]:
    """How long the batches with rows took."""
    found = [each for each in query.recentProgress if each["batchId"] > after and each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] for each in found]


def ask_spark(spark: SparkSession, checkpoint: Path, questions: int) -> list[float]:
    times = []
    for number in range(questions):
        before_s = time.perf_counter()
        state = spark.read.format("statestore").load(str(checkpoint))
        (row,) = state.filter(F.col("key.url") == f"/{number}").collect()
        assert row
        times.append(time.perf_counter() - before_s)
    return times


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
