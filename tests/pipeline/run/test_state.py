"""The state of jobs: that of Headrace's operators by key, that of Spark's as a whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.errors import HeadraceError
from headrace.operators.state.copies import read_buckets
from headrace.operators.state.inspect import find_state
from headrace.pipeline import read_topic
from headrace.pipeline.errors import BadJob
from headrace.pipeline.report.registry import Registry
from headrace.pipeline.run.state import read_job_state
from headrace.pipeline.spark.session import data_dir
from tests.pipeline.journal_sink import Journal
from tests.pipeline.test_job import drain

pytestmark = pytest.mark.timeout(300)

SCHEMA = "user STRING, n BIGINT, at TIMESTAMP"
Send = Callable[..., None]


def event(user: str | None, minute: int, n: int) -> dict[str, Any]:
    return {"user": user, "n": n, "at": f"2026-03-01T10:{minute:02}:00Z"}


def test_state_of_an_operator_is_found_by_its_key(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, *(event(f"u{number % 20}", number % 3, number) for number in range(60)), event(None, 1, 5))
    rows = read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="1 hour")
    window = op.Tumbling(
        "1 minute",
        by=["user", "n"],
        aggregate={"total": "sum(n)", "rows_": "count(*)"},
        late=op.Correct(within="1 day"),
    )
    drain(name, rows.transform(window), Journal(tmp_path / "journal.db"))
    messages: list[str] = []
    (state,) = read_job_state(data_dir(), name, rows_max=10, notify=messages.append)
    assert (state.name, state.keys, state.count, state.rows.num_rows) == ("tumbling", ("user", "n"), 61, 10)
    assert messages
    (state,) = read_job_state(data_dir(), name, rows_max=10, keys={"user": "u7"})
    assert {(row["user"], row["n"]) for row in state.rows.to_pylist()} == {("u7", 7), ("u7", 27), ("u7", 47)}
    (state,) = read_job_state(data_dir(), name, rows_max=10, keys=["u7", "27"], operator=0)
    (row,) = state.rows.to_pylist()
    assert (row["total.0"], row["rows_"], row["rows"], row["end"] - row["start"]) == (27, 1, 1, 60_000_000)
    (state,) = read_job_state(data_dir(), name, rows_max=10, keys=["nobody"])
    assert (state.count, state.rows.num_rows) == (0, 0)
    with pytest.raises(BadJob, match="no stateful operator 7"):
        read_job_state(data_dir(), name, rows_max=10, operator=7)
    with pytest.raises(HeadraceError, match="'usr'") as rejected:
        read_job_state(data_dir(), name, rows_max=10, keys={"usr": "u7"})
    assert rejected.value.hint == "the key is: user, n"


def test_state_of_spark_is_shown_without_a_search(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, event("ann", 1, 5), event("bob", 1, 6), event("ann", 2, 7))
    rows = read_topic(spark, topic, schema=SCHEMA)
    drain(name, rows.groupBy("user").count(), Journal(tmp_path / "journal.db", key="user"))
    (state,) = read_job_state(data_dir(), name, rows_max=10)
    assert state.count == 2
    assert sorted(tuple(row.values()) for row in state.rows.to_pylist()) == [("ann", 2), ("bob", 1)]
    with pytest.raises(BadJob, match="Spark's own"):
        read_job_state(data_dir(), name, rows_max=10, keys=["ann"])


def test_job_without_state_is_rejected(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, event("ann", 1, 5))
    drain(name, read_topic(spark, topic, schema=SCHEMA), Journal(tmp_path / "journal.db"))
    with pytest.raises(BadJob, match="keeps no state"):
        read_job_state(data_dir(), name, rows_max=10)


def test_state_is_read_bucket_by_bucket_if_driver_and_tasks_share_no_folder(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(topic, *(event(f"u{number}", 1, number) for number in range(20)))
    rows = read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="1 hour")
    window = op.Tumbling(
        "1 minute", by="user", aggregate={"total": "sum(n)"}, late=op.Correct(within="1 day")
    )
    drain(name, rows.transform(window), Journal(tmp_path / "journal.db"))
    checkpoint = Registry(data_dir()).checkpoint(name)
    batch_id = checkpoint.committed_batch()
    assert batch_id is not None
    state = find_state(spark, checkpoint.folder.address)
    buckets = read_buckets(spark, checkpoint.folder.address, state.owner, batch_id=batch_id)
    tables = [table for each in buckets if (table := each.rows()) is not None]
    assert len({each.number for each in buckets}) == len(buckets) > 1
    assert sum(table.num_rows for table in tables) == state.count == 20
    assert read_buckets(spark, checkpoint.folder.address, "other 12345678", batch_id=batch_id) == []
