"""State that is much larger than the part that a batch touches: the duration of a batch, and the bytes it writes.

Every batch has the same number of rows, each with another key. The first batches have new keys, until the state has
`kept` keys; the later ones touch existing keys in turn. The figures are means of the later ones, because some batches
merge the files of others.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.processes import written_bytes
from benchmarks.streams import PROGRESS_KEPT, wait_for_batch
from headrace import operators as op
from headrace.pipeline import session

WINDOW = "1000 days"
STRIDE = 7_919
"""A prime, so that every key has its turn, and neighbouring rows have distant keys."""

COLD_BATCHES = 2
"""The first batches that touch existing keys, which are not measured."""


def read_rows(spark: SparkSession, touched: int, kept: int) -> DataFrame:
    """Generated rows, the same in every run."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", touched)
        .option("numPartitions", 2)
        .option("startTimestamp", 1_767_225_600_000)
        .option("advanceMillisPerBatch", 1_000)
        .load()
    )
    rows = numbers.selectExpr(f"'user-' || pmod(value * {STRIDE}, {kept}) AS key", "timestamp AS at")
    return rows.withWatermark("at", "1 hour")


def start(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
    trigger = op.Trigger(early=1, panes="accumulating")
    counted = rows.transform(op.Tumbling(WINDOW, by="key", aggregate={"n": "count(*)"}, trigger=trigger))
    writer = counted.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="0 seconds").start()


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    touched, kept, batches = (arguments[name] for name in ("touched", "kept", "batches"))
    spark = session("bench-kept-keys", master="local[2]", data_dir=folder / "data", conf=PROGRESS_KEPT)
    query = start(read_rows(spark, touched, kept), folder / "checkpoint")
    first = wait_for_batch(query, kept // touched - 1 + COLD_BATCHES)
    before = written_bytes(os.getpid())
    last = wait_for_batch(query, first + batches)
    written = written_bytes(os.getpid()) - before
    query.stop()
    measured = [each for each in query.recentProgress if first < each["batchId"] <= last]
    assert all(each["numInputRows"] == touched for each in measured)
    took_s = [each["durationMs"]["triggerExecution"] / 1000 for each in measured]
    print(json.dumps([round(each, 2) for each in took_s]), file=sys.stderr)
    return {
        "batch_s": sum(took_s) / len(took_s),
        "written_mb": written / 1e6 / (last - first),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
