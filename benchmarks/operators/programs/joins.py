"""Joins of topics, drained to a sink that discards: Headrace's operators, and Spark's own join. Records per second."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measurements import Side
from benchmarks.operators.bench import WARM_UP
from benchmarks.operators.events import (
    CLICKS,
    CLICKS_SCHEMA,
    PROFILES,
    PROFILES_SCHEMA,
    RESULTS,
    RESULTS_SCHEMA,
    SEARCHES,
    SEARCHES_SCHEMA,
)
from benchmarks.streams import (
    ROWS_PER_BATCH,
    drain_by_hand,
    drain_headrace,
    read_by_hand,
    read_headrace,
    session_of,
    timed,
)
from headrace import operators as op

WATERMARK = "1 minute"
WITHIN = "30 seconds"
ROWS_PER_BATCH_AND_TOPIC = ROWS_PER_BATCH // 2

INNER = "join-inner"
LEFT = "join-left"
AS_OF = "join-as-of"

Read = Callable[[str, str, str], DataFrame]
"""A topic, by name, schema and event time."""


def join_ours(read: Read, work: str, suffix: str) -> DataFrame:
    if work == AS_OF:
        clicks = read(CLICKS + suffix, CLICKS_SCHEMA, "at")
        profiles = read(PROFILES + suffix, PROFILES_SCHEMA, "changed_at")
        return clicks.transform(op.Enrich(profiles, on="user", as_of="event_time"))
    searches = read(SEARCHES + suffix, SEARCHES_SCHEMA, "at")
    results = read(RESULTS + suffix, RESULTS_SCHEMA, "clicked_at")
    join = op.JoinWithin(results, on="session", within=WITHIN, unmatched="left" if work == LEFT else None)
    return searches.transform(join)


def join_by_hand(read: Read, work: str, suffix: str) -> DataFrame:
    searches = read(SEARCHES + suffix, SEARCHES_SCHEMA, "at")
    results = read(RESULTS + suffix, RESULTS_SCHEMA, "clicked_at")
    condition = F.expr(
        f"session = result_session AND clicked_at >= at - INTERVAL {WITHIN} AND clicked_at <= at + INTERVAL {WITHIN}"
    )
    kind = "leftOuter" if work == LEFT else "inner"
    return searches.join(results.withColumnRenamed("session", "result_session"), condition, kind)


def reader(spark: SparkSession, bootstrap: str, *, by_hand: bool) -> Read:
    def read(topic: str, schema: str, event_time: str) -> DataFrame:
        if by_hand:
            return read_by_hand(
                spark,
                bootstrap,
                topic,
                schema,
                event_time=event_time,
                watermark=WATERMARK,
                rows_per_batch=ROWS_PER_BATCH_AND_TOPIC,
            )
        return read_headrace(
            spark,
            topic,
            schema,
            event_time=event_time,
            watermark=WATERMARK,
            rows_per_batch=ROWS_PER_BATCH_AND_TOPIC,
        )

    return read


def main(arguments: dict[str, Any]) -> dict[str, float]:
    """`events` has the total number of events in the topics of each kind of work."""
    folder = Path(arguments["folder"])
    bootstrap = arguments["bootstrap"]
    is_by_hand = arguments["side"] == Side.SPARK
    spark = session_of(Side(arguments["side"]), bootstrap, folder)
    read = reader(spark, bootstrap, by_hand=is_by_hand)

    def run(work: str, suffix: str) -> None:
        job = f"{work}{suffix}"
        if is_by_hand:
            drain_by_hand(folder, job, join_by_hand(read, work, suffix), output_mode="append")
        else:
            drain_headrace(job, join_ours(read, work, suffix), output_mode="append")

    figures: dict[str, float] = {}
    for work, events in arguments["events"].items():
        run(work, WARM_UP)
        figures |= timed(partial(run, work, "")).figures(work, events)
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
