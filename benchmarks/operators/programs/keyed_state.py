"""Counts by key and hour, every change published: the keyed-state core, and one state call per key. Records per second.

With a `bootstrap`, the rows come from topics, and a whole run is timed, after a short one. Without it, they come from
Parquet files, which cost almost nothing to read, and only batches with state of earlier ones are timed: to examine one
implementation, for example with a profiler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.operators.bench import WARM_UP
from benchmarks.operators.events import CLICKS, CLICKS_SCHEMA
from benchmarks.streams import drain_by_hand, drain_headrace, read_by_hand, read_headrace, timed
from headrace import operators as op
from headrace.operators.triggers import Panes
from headrace.pipeline import session

CORE = "core"
CORE_RETRACTING = "core-retracting"
PER_KEY_ROWS = "per-key-rows"
PER_KEY_PANDAS = "per-key-pandas"
NATIVE = "native"

BATCHES = 4
FILES_PER_BATCH = 2
WINDOW = "1 hour"
WINDOW_MS = 3_600_000
WATERMARK = "1 hour"
FILES_SCHEMA = "key STRING, at TIMESTAMP, ms BIGINT"

STATE = "n LONG, revision INT"
COUNTED = "key STRING, start_ms LONG, n LONG, pane STRING, revision INT, watermark_ms LONG"
"""Times as numbers: the conversion of timestamps to and from Python is slower, most of all with pandas."""

RESULT = (
    "key",
    "timestamp_millis(start_ms) AS window_start",
    f"timestamp_millis(start_ms + {WINDOW_MS}) AS window_end",
    "n",
    "pane",
    "revision",
    "'+' AS op",
    "timestamp_millis(watermark_ms) AS watermark",
)


class CountWindow(StatefulProcessor):
    """As in Spark's documentation: separate state for every key and window, and a timer for the end of the window."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("count", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        count, revision = _counted(self._state, self._handle, key, sum(1 for _ in rows))
        yield Row(**_result(key, count, "early", revision, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        count, revision = self._state.get()
        self._state.clear()
        yield Row(**_result(key, count, "on time", revision + 1, timerValues))

    def close(self) -> None:
        pass


class CountWindowInPandas(StatefulProcessor):
    """The same, with pandas DataFrames."""

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._state = handle.getValueState("count", STATE)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        count, revision = _counted(self._state, self._handle, key, sum(len(frame) for frame in rows))
        yield _frame(_result(key, count, "early", revision, timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        count, revision = self._state.get()
        self._state.clear()
        yield _frame(_result(key, count, "on time", revision + 1, timerValues))

    def close(self) -> None:
        pass


def _counted(state: Any, handle: Any, key: Any, more: int) -> tuple[int, int]:
    before = state.get()
    if before is None:
        handle.registerTimer(int(key[1]) + WINDOW_MS)
        after = (more, 0)
    else:
        after = (before[0] + more, before[1] + 1)
    state.update(after)
    return after


def _result(key: Any, count: int, pane: str, revision: int, times: Any) -> dict[str, Any]:
    return {
        "key": key[0],
        "start_ms": key[1],
        "n": count,
        "pane": pane,
        "revision": revision,
        "watermark_ms": times.getCurrentWatermarkInMs(),
    }


def _frame(result: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame({name: [value] for name, value in result.items()})


def _core(panes: Panes) -> Callable[[DataFrame], DataFrame]:
    trigger = op.Trigger(early=1, panes=panes)
    return op.Tumbling(WINDOW, by="key", aggregate={"n": "count(*)"}, trigger=trigger)


def _by_window(rows: DataFrame) -> Any:
    start_ms = F.unix_millis(F.window("at", WINDOW)["start"])
    return rows.select("key", start_ms.alias("start_ms"), "at").groupBy("key", "start_ms")


def _per_key_rows(rows: DataFrame) -> DataFrame:
    counted: DataFrame = _by_window(rows).transformWithState(CountWindow(), COUNTED, "append", "eventTime")
    return counted.selectExpr(*RESULT)


def _per_key_pandas(rows: DataFrame) -> DataFrame:
    counted: DataFrame = _by_window(rows).transformWithStateInPandas(
        CountWindowInPandas(), COUNTED, "append", "eventTime"
    )
    return counted.selectExpr(*RESULT)


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    CORE: _core("accumulating"),
    CORE_RETRACTING: _core("retracting"),
    PER_KEY_ROWS: _per_key_rows,
    PER_KEY_PANDAS: _per_key_pandas,
    NATIVE: lambda rows: rows.groupBy("key", F.window("at", WINDOW)).count(),
}


def from_topic(spark: SparkSession, arguments: dict[str, Any], way: str) -> dict[str, float]:
    bootstrap, column = arguments["bootstrap"], arguments["column"]
    rows_per_batch = arguments["events"] // BATCHES

    def run(topic: str) -> None:
        if way.startswith(CORE):
            rows = read_headrace(
                spark, topic, CLICKS_SCHEMA, watermark=WATERMARK, rows_per_batch=rows_per_batch
            )
            drain_headrace(
                f"{way}-{topic}", WAYS[way](rows.withColumnRenamed(column, "key")), output_mode="append"
            )
        else:
            rows = read_by_hand(
                spark, bootstrap, topic, CLICKS_SCHEMA, watermark=WATERMARK, rows_per_batch=rows_per_batch
            )
            counted = WAYS[way](rows.withColumnRenamed(column, "key"))
            drain_by_hand(Path(arguments["folder"]), f"{way}-{topic}", counted, output_mode="append")

    run(CLICKS + WARM_UP)
    return timed(partial(run, arguments["topic"])).figures(way, arguments["events"])


def write_files(spark: SparkSession, folder: Path, rows: int, keys: int) -> None:
    """One file per batch, so that every batch has its own part of the hour."""
    files = BATCHES * FILES_PER_BATCH
    spark.range(0, rows, numPartitions=files).selectExpr(
        f"'user-' || pmod(xxhash64(id), {keys}) AS key",
        f"timestamp_millis(1700002800000 + id * 3600000 div {rows}) AS at",
        "pmod(xxhash64(id, 1), 1000) AS ms",
    ).write.parquet(str(folder))


def from_files(spark: SparkSession, files: Path, way: str, checkpoint: Path) -> float:
    reader = spark.readStream.schema(FILES_SCHEMA).option("maxFilesPerTrigger", str(FILES_PER_BATCH))
    rows = reader.parquet(str(files)).withWatermark("at", WATERMARK)
    query: StreamingQuery = (
        WAYS[way](rows)
        .writeStream.format("noop")
        .outputMode("update" if way == NATIVE else "append")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = [json.loads(each.json) for each in query.recentProgress]
    # The first batch starts Python workers and compiles. It is not measured.
    measured = [each for each in batches if each["numInputRows"]][1:]
    seconds = sum(each["durationMs"]["triggerExecution"] for each in measured) / 1000
    return float(sum(each["numInputRows"] for each in measured) / seconds)


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    bootstrap = arguments.get("bootstrap")
    spark = session("bench-keyed-state", master="local[2]", bootstrap=bootstrap, data_dir=folder / "data")
    # Spark logs a warning for every key without state, which would slow implementations with a call per key.
    spark.sparkContext.setLogLevel("ERROR")
    if bootstrap is not None:
        (way,) = arguments["ways"]
        return from_topic(spark, arguments, way)
    figures: dict[str, float] = {}
    for keys in arguments["keys"]:
        files = folder / f"rows-{keys}"
        write_files(spark, files, arguments["rows"], keys)
        for way in arguments["ways"]:
            rate = from_files(spark, files, way, folder / f"checkpoint-{way}-{keys}")
            figures[f"{way}-{keys}"] = rate
            print(f"{way} {keys:,} keys: {rate:,.0f} rows/s", file=sys.stderr)
    spark.stop()
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
