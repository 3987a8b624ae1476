"""Windows over a topic, drained to a sink that discards: Headrace's operators, and Spark's own. Records per second."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.measurements import Side
from benchmarks.operators.bench import WARM_UP
from benchmarks.operators.events import CLICKS, CLICKS_SCHEMA
from benchmarks.streams import (
    Took,
    drain_by_hand,
    drain_headrace,
    read_by_hand,
    read_headrace,
    session_of,
    timed,
)
from headrace import operators as op
from headrace.pipeline.sinks.sink import OutputMode

WATERMARK = "1 minute"
COUNT = {"n": "count(*)"}

Transform = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    what: str
    ours: op.Operator
    theirs: Transform
    their_output_modes: tuple[OutputMode, ...] = ("append",)
    """If Spark supports several output modes, the fastest one counts."""


WORKS = {
    "tumbling": Work(
        what="tumbling, 1 minute, by user",
        ours=op.Tumbling("1 minute", by="user", aggregate=COUNT),
        theirs=lambda rows: rows.groupBy(F.window("at", "1 minute"), "user").agg(F.count("*").alias("n")),
    ),
    "hopping": Work(
        what="hopping, 5 minutes, one every minute, by user",
        ours=op.Hopping("5 minutes", every="1 minute", by="user", aggregate=COUNT),
        theirs=lambda rows: rows.groupBy(F.window("at", "5 minutes", "1 minute"), "user").agg(
            F.count("*").alias("n")
        ),
    ),
    "session": Work(
        what="session, a gap of 10 seconds, by user",
        ours=op.Session(gap="10 seconds", by="user", aggregate=COUNT),
        theirs=lambda rows: rows.groupBy(F.session_window("at", "10 seconds"), "user").agg(
            F.count("*").alias("n")
        ),
    ),
    "panes-each-batch": Work(
        what="changes are emitted with every batch, and the previous results are retracted",
        ours=op.Tumbling("1 hour", by="device", aggregate=COUNT, trigger=op.Trigger(early=1)),
        theirs=lambda rows: rows.groupBy(F.window("at", "1 hour"), "device").agg(F.count("*").alias("n")),
        their_output_modes=("append", "update"),
    ),
    "panes-10-seconds": Work(
        what="the same, each window at most every 10 seconds",
        ours=op.Tumbling("1 hour", by="device", aggregate=COUNT, trigger=op.Trigger(early="10 seconds")),
        theirs=lambda rows: rows.groupBy(F.window("at", "1 hour"), "device").agg(F.count("*").alias("n")),
        their_output_modes=("append", "update"),
    ),
}


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    bootstrap = arguments["bootstrap"]
    spark = session_of(Side(arguments["side"]), bootstrap, folder)

    def run(topic: str, name: str, output_mode: OutputMode) -> None:
        work = WORKS[name]
        job = f"{name}-{output_mode}-{topic}"
        if arguments["side"] == Side.SPARK:
            rows = work.theirs(read_by_hand(spark, bootstrap, topic, CLICKS_SCHEMA, watermark=WATERMARK))
            drain_by_hand(folder, job, rows, output_mode=output_mode)
        else:
            rows = read_headrace(spark, topic, CLICKS_SCHEMA, watermark=WATERMARK).transform(work.ours)
            drain_headrace(job, rows, output_mode=output_mode)

    def quickest(name: str) -> Took:
        modes: tuple[OutputMode, ...] = (
            WORKS[name].their_output_modes if arguments["side"] == Side.SPARK else ("append",)
        )
        for mode in modes:
            run(CLICKS + WARM_UP, name, mode)
        tries = [timed(partial(run, CLICKS, name, mode)) for mode in modes]
        return min(tries, key=lambda took: took.seconds)

    figures: dict[str, float] = {}
    for name in arguments["works"]:
        figures |= quickest(name).figures(name, arguments["events"])
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
