"""A long run with a constant set of keys, with samples of memory and checkpoint size.

    python -m benchmarks.operators.programs.steady_state '{"folder": …, "events": 10000000, "keys": 10000}'

Prints a table during the run, and the samples as JSON at the end. Each batch has 100,000 rows. The windows of a minute
have early, on-time and late panes with retractions, and their state is deleted two minutes after their end.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from benchmarks.processes import process_tree
from benchmarks.streams import wait_for_batch
from headrace import operators as op
from headrace.pipeline import session

ROWS_PER_BATCH = 100_000
SAMPLES = 20
BATCHES_RETAINED = 4
"""Spark keeps the files of this many batches. With the default of a hundred, a run of a hundred batches would only
show how they accumulate."""

BATCHES_PER_SNAPSHOT = 2
"""Spark keeps batches until the next snapshot. With the default of ten, the size of the folder would vary by those."""

HEAP = "1g"
"""Allocated completely at the start. Otherwise the growth of Java's heap would hide other growth."""


def conf() -> dict[str, str]:
    return {
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
        "spark.sql.streaming.minBatchesToRetain": str(BATCHES_RETAINED),
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": str(BATCHES_PER_SNAPSHOT),
        "spark.sql.streaming.stateStore.maintenanceInterval": "2s",
    }


def read_rows(spark: SparkSession, keys: int) -> DataFrame:
    """One row per millisecond of event time; one in a hundred is a minute and a half late."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .option("numPartitions", 2)
        .option("startTimestamp", 1_767_225_600_000)
        .option("advanceMillisPerBatch", ROWS_PER_BATCH)
        .load()
    )
    rows = numbers.selectExpr(
        f"'user-' || pmod(xxhash64(value), {keys}) AS key",
        f"timestamp + make_dt_interval(0, 0, 0, (value % {ROWS_PER_BATCH}) / 1000.0) "
        "- make_dt_interval(0, 0, 0, if(value % 100 = 0, 90, 0)) AS at",
        "value % 1000 AS ms",
    )
    return rows.withWatermark("at", "10 seconds")


def sample(spark: SparkSession, batch_id: int, checkpoint: Path) -> dict[str, float]:
    gc.collect()
    java_pid, *worker_pids = process_tree(_java_pid(spark))
    # Any: py4j has no types. The used part of the heap is known only after a collection.
    java: Any = spark._jvm
    java.java.lang.System.gc()
    heap = java.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
    workers_mb = sum(_resident_mb(pid) for pid in worker_pids)
    return {
        "batch": batch_id,
        "heap_mb": heap.getUsed() / 1e6,
        "beside_heap_mb": _resident_mb(java_pid) - heap.getCommitted() / 1e6,
        "workers_mb": workers_mb,
        "checkpoint_mb": _size_mb(checkpoint),
    }


def _java_pid(spark: SparkSession) -> int:
    java: Any = spark._jvm
    return int(java.java.lang.ProcessHandle.current().pid())


def _resident_mb(pid: int) -> float:
    """The resident memory of this process only; 0 if it has ended since it was listed."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except FileNotFoundError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _size_mb(folder: Path) -> float:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except FileNotFoundError:  # Spark deletes files during the walk
            continue
    return total / 1e6


def main(arguments: dict[str, Any]) -> list[dict[str, float]]:
    folder = Path(arguments["folder"])
    batches = arguments["events"] // ROWS_PER_BATCH
    spark = session("steady-state", master="local[2]", data_dir=folder / "data", conf=conf())
    windows = op.Tumbling(
        "1 minute",
        by="key",
        aggregate={"n": "count(*)", "slowest": "max(ms)"},
        trigger=op.Trigger(early=1, late="each"),
        late=op.Correct(within="2 minutes"),
    )
    checkpoint = folder / "checkpoint"
    query = (
        read_rows(spark, arguments["keys"])
        .transform(windows)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    names = ("batch", "heap_mb", "beside_heap_mb", "workers_mb", "checkpoint_mb")
    print("".join(f"{name:>15}" for name in names), file=sys.stderr)
    samples = []
    for number in range(1, SAMPLES + 1):
        batch_id = wait_for_batch(query, batches * number // SAMPLES - 1)
        samples.append(sample(spark, batch_id, checkpoint))
        print("".join(f"{samples[-1][name]:15,.1f}" for name in names), file=sys.stderr, flush=True)
    query.stop()
    return samples


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
