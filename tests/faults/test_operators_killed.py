"""`kill -9` of a driver with patterns, joins, stored queries and approximations: no row is lost, none comes twice."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.kafka.cluster import Cluster
from headrace.testing.faults import KILL_VARIABLE
from tests.compatibility.topic_contents import write
from tests.faults.operator_jobs import BY_BATCH, EVENTS, IMMEDIATE, OPERATORS, QUERIES, journal
from tests.faults.sink_jobs import ordered
from tests.pipeline.journal_sink import rows_in

COUNT = 300
ROWS_PER_BATCH = 50
RUN_S_MAX = 600.0
WORDS = ("red", "green", "blue", "round", "square")


def at(seconds: float) -> str:
    return (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=seconds)).isoformat()


def event(number: int) -> dict[str, Any]:
    text = f"{WORDS[number % 3]} {WORDS[3 + number % 2]}"
    return {
        "id": f"e{number}",
        "user": f"u{number * number % 7}",
        "n": number,
        "text": text,
        "at": at(number),
    }


EVENT_ROWS = [event(number) for number in range(COUNT)]
QUERY_ROWS = [
    {"id": "both", "query": "red AND round", "at": at(-10)},
    {"id": "changed", "query": "green", "at": at(-10)},
    {"id": "changed", "query": "blue -square", "at": at(COUNT / 2)},
    {"id": "later", "query": '"green square"', "at": at(COUNT / 3)},
]
A_DAY_LATER = {"id": "end", "user": "end", "n": 3, "text": "end", "query": "nothing", "at": at(86_400)}
"""With it the watermark passes all other rows."""

ALL_ROWS: list[dict[str, Any]] = [*EVENT_ROWS, A_DAY_LATER]


def send(bootstrap: str, topic: str, rows: list[dict[str, Any]]) -> None:
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    write(bootstrap, topic, [{"value": json.dumps(row)} for row in [*rows, A_DAY_LATER]])


def run(bootstrap: str, folder: Path, topics: tuple[str, str], **environment: str) -> int:
    # After a restart Spark's watermark waits for a row of each source.
    write(bootstrap, topics[1], [{"value": json.dumps(A_DAY_LATER)}])
    command = [sys.executable, "-m", "tests.faults.operator_jobs", bootstrap, str(folder), *topics]
    limit = {"HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": str(ROWS_PER_BATCH)}
    return subprocess.run(
        command, env={**os.environ, **limit, **environment}, timeout=RUN_S_MAX, check=False
    ).returncode


def bounded(spark: SparkSession, rows: list[dict[str, Any]], schema: str) -> DataFrame:
    texts = spark.createDataFrame([(json.dumps(row),) for row in rows], "text STRING")
    return texts.select(F.from_json("text", schema).alias("row")).select("row.*")


def expected(spark: SparkSession, name: str) -> list[dict[str, Any]]:
    operator = OPERATORS[name]
    events = bounded(spark, ALL_ROWS if operator in IMMEDIATE else EVENT_ROWS, EVENTS)
    found = [row.asDict() for row in operator(events, bounded(spark, QUERY_ROWS, QUERIES)).collect()]
    assert found, "the test shows nothing without rows"
    return ordered(found)


def net(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a changelog that were not retracted, and any that came or were retracted too often."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[json.dumps({**row, "op": "+"})] += 1 if row["op"] == "+" else -1
    assert set(counts.values()) <= {0, 1}
    return ordered([json.loads(row) for row, count in counts.items() if count])


def rows_of_batches(path: Path) -> list[tuple[int, dict[str, Any]]]:
    with closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT batch, row FROM rows").fetchall()
    return [(batch, json.loads(row)) for batch, row in found]


@pytest.mark.slow
@pytest.mark.timeout(2700)
def test_driver_killed_between_every_two_steps_of_a_batch_changes_nothing(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    events, queries = (f"{kind}-{uuid.uuid4().hex[:8]}" for kind in ("events", "queries"))
    send(bootstrap, events, EVENT_ROWS)
    send(bootstrap, queries, QUERY_ROWS)
    for point in ("before-write", "after-write", "after-commit"):
        kill = {KILL_VARIABLE: f"{point}:2:{len(OPERATORS)}"}
        code = run(bootstrap, tmp_path, (events, queries), **kill)
        assert code == -signal.SIGKILL, f"it was not killed at {point}"
    assert run(bootstrap, tmp_path, (events, queries)) == 0
    for name, operator in OPERATORS.items():
        if operator not in BY_BATCH:
            found = rows_in(journal(tmp_path, name))
            assert (net(found) if "op" in found[0] else found) == expected(spark, name), name
    assert_frequencies_count_every_row_once(rows_of_batches(journal(tmp_path, "frequency")))
    assert_clusters_have_every_point_once(net(rows_in(journal(tmp_path, "clusters"))))


def assert_frequencies_count_every_row_once(rows: list[tuple[int, dict[str, Any]]]) -> None:
    """The number of each row includes its batch. Of so few users, the sketch is exact."""
    assert sorted(row["id"] for _, row in rows) == sorted(row["id"] for row in ALL_ROWS)
    for batch, row in rows:
        assert row["count"] == sum(other["user"] == row["user"] for at, other in rows if at <= batch)


def assert_clusters_have_every_point_once(clusters: list[dict[str, Any]]) -> None:
    """Without forgetting, centres are the means of their points, and weights their numbers."""
    assert sorted(each["cluster"] for each in clusters) == [0, 1, 2]
    assert sum(each["weight"] for each in clusters) == len(ALL_ROWS)
    total = sum(each["centre"][0] * each["weight"] for each in clusters)
    assert total == pytest.approx(sum(row["n"] for row in ALL_ROWS))
