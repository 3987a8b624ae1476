"""The same three jobs with Headrace and in plain PySpark, drained to a sink that discards: records per second."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.measurements import Side
from benchmarks.pipeline.events import EVENTS_TOPIC, SCHEMA, WARMUP_TOPIC
from benchmarks.streams import (
    drain_by_hand,
    drain_headrace,
    read_by_hand,
    read_headrace,
    session_of,
)

WORKS = {
    "pass-through": "pass-through",
    "filter": "filter, one event in ten",
    "windowed-count": "count by url in windows of a minute",
}


def work_on(rows: DataFrame, work: str) -> DataFrame:
    if work == "filter":
        return rows.where("url LIKE 'https://shop.example/%'")
    if work == "windowed-count":
        return rows.groupBy(F.window("at", "1 minute"), "url").count()
    return rows


def main(arguments: dict[str, Any]) -> dict[str, float]:
    folder = Path(arguments["folder"])
    by_hand = arguments["side"] == Side.SPARK
    bootstrap = arguments["bootstrap"]
    spark = session_of(Side(arguments["side"]), bootstrap, folder)

    def run(topic: str, work: str) -> float:
        name = f"{topic}-{work}"
        started_s = time.monotonic()
        if by_hand:
            rows = read_by_hand(spark, bootstrap, topic, SCHEMA)
            drain_by_hand(folder, name, work_on(rows, work), output_mode="update")
        else:
            rows = read_headrace(spark, topic, SCHEMA)
            drain_headrace(name, work_on(rows, work), output_mode="update")
        return time.monotonic() - started_s

    figures = {}
    for work in arguments["works"]:
        run(WARMUP_TOPIC, work)
        figures[work] = arguments["events"] / run(EVENTS_TOPIC, work)
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
