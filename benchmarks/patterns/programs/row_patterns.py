"""A row pattern over a topic, drained to a sink that discards. Records per second."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measurements import Side
from benchmarks.operators.bench import WARM_UP
from benchmarks.operators.events import CLICKS, CLICKS_SCHEMA
from benchmarks.streams import drain_headrace, read_headrace, session_of, timed
from headrace import operators as op
from headrace.pipeline.settings import pipeline_settings

PATTERN = op.MatchRecognize("""
    PARTITION BY user ORDER BY at
    MEASURES A.at AS since, COUNT(B.ms) AS n, LAST(B.ms) AS b, C.ms AS c, C.at AS until
    ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B+ C) WITHIN INTERVAL '10' MINUTE
    DEFINE A AS ms < 500, B AS ms >= 500 AND ms < 1500, C AS ms >= 1500""")
"""The same as in `benchmarks/operators/programs/flink_sql.py`."""


def main(arguments: dict[str, Any]) -> dict[str, float]:
    spark = session_of(Side.HEADRACE, arguments["bootstrap"], Path(arguments["folder"]))

    def run(topic: str) -> None:
        # The default of jobs: plain Spark, for which the other programs have smaller batches, is no peer here.
        batch = pipeline_settings().rows_per_batch_max
        rows = read_headrace(spark, topic, CLICKS_SCHEMA, watermark="1 minute", rows_per_batch=batch)
        rows = rows.transform(PATTERN)
        drain_headrace(f"row-pattern-{topic}", rows, output_mode="append")

    run(CLICKS + WARM_UP)
    return timed(partial(run, CLICKS)).figures("row-pattern", arguments["events"])


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
