"""A process with a job for each of these operators, to be killed.

    python -m tests.faults.operator_jobs BOOTSTRAP FOLDER EVENTS QUERIES

The output of most depends on the rows alone, not on batches: it is that of the same operator on bounded rows. Those of
`IMMEDIATE` emit it with the batch of a row, the others when the watermark has passed. That of `BY_BATCH` depends on
batches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame

from headrace import operators as op
from headrace.testing.faults import kill_as_environment_says
from tests.pipeline.journal_sink import Journal

EVENTS = "id STRING, user STRING, n INT, text STRING, at TIMESTAMP"
QUERIES = "id STRING, query STRING, at TIMESTAMP"


def pattern(events: DataFrame, _queries: DataFrame) -> DataFrame:
    matches = op.MatchRecognize("""
        PARTITION BY user ORDER BY at
        MEASURES FIRST(low.n) AS first, COUNT(low.n) AS lows, high.n AS last, MATCH_NUMBER() AS number
        ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW
        PATTERN (low+ high) WITHIN INTERVAL '5' MINUTE
        DEFINE low AS n % 5 < 3, high AS n % 5 = 4""")
    return events.transform(matches)


def pattern_rows(events: DataFrame, _queries: DataFrame) -> DataFrame:
    """All rows, each once: the state has which of them were emitted."""
    matches = op.MatchRecognize("""
        PARTITION BY user ORDER BY at MEASURES CLASSIFIER() AS variable, COUNT(*) AS place
        ALL ROWS PER MATCH WITH UNMATCHED ROWS AFTER MATCH SKIP TO NEXT ROW
        PATTERN (low high*) WITHIN INTERVAL '30' SECOND
        DEFINE low AS n % 5 < 2, high AS n > FIRST(n) AND n % 5 > 1""")
    return events.transform(matches).select("id", "variable", "place")


def absence(events: DataFrame, _queries: DataFrame) -> DataFrame:
    beats = events.where("n % 3 = 1")
    silent = op.Absence(of=beats, on="user", within="10 seconds", time="at", other_time="at")
    return events.where("n % 3 = 0").transform(silent).select("id", "user")


def join(events: DataFrame, _queries: DataFrame) -> DataFrame:
    """With the rows of both sides that have no match."""
    others = events.where("n % 4 = 1").select("id", "user", "at")
    both = op.JoinWithin(
        others,
        on="user",
        before="5 seconds",
        after="20 seconds",
        unmatched="both",
        time="at",
        other_time="at",
    )
    return events.where("n % 3 = 0").transform(both).select("user", "id", "id_right")


def join_window(events: DataFrame, _queries: DataFrame) -> DataFrame:
    others = events.where("n % 4 = 1").select("id", "user", "at")
    left = op.JoinWindow(others, on="user", length="20 seconds", unmatched="left", time="at", other_time="at")
    return events.where("n % 3 = 0").transform(left).select("user", "id", "id_right")


def search(events: DataFrame, queries: DataFrame) -> DataFrame:
    """With a limit, of which the state has the hits of each query."""
    hits = op.SearchQueries(
        queries, text="text", key="id", time="at", query_time="at", limit=8, per="1 minute", score=False
    )
    return events.transform(hits).select("id", "id_query", "suppressed")


def seen(events: DataFrame, _queries: DataFrame) -> DataFrame:
    return events.transform(op.Seen(key="user", keys_max=1_000, error=1e-6)).select("user")


def approximate(events: DataFrame, _queries: DataFrame) -> DataFrame:
    sketches = {"texts": "distinct(text)", "median": "percentile(n, 0.5)", "ids": "hll_sketch(id)"}
    found = events.transform(op.Approximate(by="user", aggregate=sketches))
    return found.selectExpr("user", "texts", "median", "hex(ids) as ids", "op")


def top(events: DataFrame, _queries: DataFrame) -> DataFrame:
    return events.transform(op.TopN(3, of="user"))


def top_window(events: DataFrame, _queries: DataFrame) -> DataFrame:
    found = events.transform(op.TopN(3, of="user", within=op.Tumbling("1 minute", time="at")))
    return found.select("rank", "user", "count", "revision")


def sample(events: DataFrame, _queries: DataFrame) -> DataFrame:
    return events.select("id", "user", "n").transform(op.Sample(4, by="user"))


def frequency(events: DataFrame, _queries: DataFrame) -> DataFrame:
    return events.select("id", "user").transform(op.Frequency(of="user"))


def clusters(events: DataFrame, _queries: DataFrame) -> DataFrame:
    return events.transform(op.StreamingKMeans(k=3, features="n"))


IMMEDIATE = (seen, approximate, top, sample)
BY_BATCH = (frequency, clusters)
OPERATORS: Mapping[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    each.__name__: each
    for each in (
        pattern,
        pattern_rows,
        absence,
        join,
        join_window,
        search,
        top_window,
        *IMMEDIATE,
        *BY_BATCH,
    )
}


def journal(folder: Path, name: str) -> Path:
    return folder / f"{name}.db"


def main(bootstrap: str, folder: Path, events_topic: str, queries_topic: str) -> None:
    from headrace.pipeline import Job, read_topic, session

    kill_as_environment_says()
    spark = session("operators", master="local[2]", bootstrap=bootstrap, data_dir=folder / "data")

    def read(topic: str, schema: str) -> DataFrame:
        rows = read_topic(spark, topic, schema=schema, event_time="at", watermark="10 seconds")
        return rows.select(*(column.split()[0] for column in schema.split(", ")))

    running = [
        Job(
            f"{events_topic}-{name}",
            operator(read(events_topic, EVENTS), read(queries_topic, QUERIES)),
            Journal(journal(folder, name)),
            mode="batch",
        ).start()
        for name, operator in OPERATORS.items()
    ]
    for job in running:
        job.wait()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
