"""A source that a test feeds: each send is one micro-batch of a job."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.pipeline import Job
from headrace.testing import Collect, Feed

WAIT_S = 100


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, "user STRING, at TIMESTAMP, n INT, raw BINARY", tmp_path / "feed")


def test_each_send_is_a_micro_batch_in_its_order(feed: Feed, headrace_name: str) -> None:
    feed.send({"user": "ann", "n": 1, "raw": b"\xff"}, {"user": "bob"})
    feed.send({"user": "cat", "at": datetime(2026, 3, 1, 10, tzinfo=UTC)})
    feed.send()
    collected = Collect()
    job = Job(headrace_name, feed.rows.select("user", "n", "raw", "at"), collected, mode="batch")
    job.start().wait(WAIT_S)
    feed.send({"user": "dan"})
    job.start().wait(WAIT_S)

    assert [[row["user"] for row in batch] for batch in collected.batches.values() if batch] == [
        ["ann", "bob"],
        ["cat"],
        ["dan"],
    ]
    first, second, third, _ = collected.rows
    assert (first["n"], first["raw"]) == (1, b"\xff")
    assert second["n"] is None
    assert third["at"].timestamp() == datetime(2026, 3, 1, 10, tzinfo=UTC).timestamp()


def test_windows_of_a_fed_stream_are_collected(feed: Feed, headrace_name: str) -> None:
    feed.send({"user": "ann", "at": "2026-03-01T10:00:05Z"}, {"user": "ann", "at": "2026-03-01T10:00:50Z"})
    feed.send({"user": "bob", "at": "2026-03-01T10:07:00Z"})
    per_minute = feed.rows.withWatermark("at", "0 seconds").transform(
        op.Tumbling("1 minute", by="user", aggregate={"n": "count(*)"}, time="at")
    )
    collected = Collect()
    Job(headrace_name, per_minute.select("user", "n"), collected, mode="batch").start().wait(WAIT_S)
    assert collected.rows == [{"user": "ann", "n": 2}]
