"""The start of a stream after a loss of its checkpoint or its state. docs/explanation/recovery.md explains it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import Job, launch, read_topic
from headrace.pipeline.errors import BadJob, BadSource, JobFailed
from headrace.pipeline.launch import Launch
from headrace.pipeline.report.registry import Registry
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.sinks import Table
from headrace.pipeline.sinks.sink import Sink
from headrace.pipeline.spark.session import data_dir
from headrace.testing import abort_at
from tests.pipeline.journal_sink import Journal, rows_in

pytestmark = pytest.mark.timeout(300)

WAIT_S = 250.0
Send = Callable[..., None]


def orders(*numbers: int) -> list[dict[str, Any]]:
    return [{"user": f"u{number % 3}", "n": number} for number in numbers]


def counts(*numbers: int) -> list[dict[str, Any]]:
    by_user = Counter(row["user"] for row in orders(*numbers))
    return [{"user": user, "count": by_user[user]} for user in sorted(by_user)]


def read(spark: SparkSession, topic: str) -> DataFrame:
    return read_topic(spark, topic, schema="user STRING, n INT").select("user", "n")


def drain(name: str, rows: DataFrame, sink: Sink) -> RunningJob:
    running = Job(name, rows, sink, mode="batch").start()
    assert running.wait(WAIT_S)
    return running


def counted(path: Path) -> list[dict[str, Any]]:
    return sorted(rows_in(path), key=lambda row: str(row["user"]))


def lose_checkpoint(name: str) -> None:
    """All that the data folder knows of the job."""
    shutil.rmtree(Registry(data_dir()).folder(name).path)


@pytest.fixture(autouse=True)
def no_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTARTS_MAX", "0")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


@pytest.fixture
def by_user(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "by-user.db", key="user")


def test_job_without_state_resumes_from_the_target_when_its_checkpoint_is_lost(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    for numbers in ((1, 2), (3, 4)):
        send(topic, *orders(*numbers))
        before = drain(name, read(spark, topic), journal).status()
    lose_checkpoint(name)
    send(topic, *orders(5))
    after = drain(name, read(spark, topic), journal).status()
    assert rows_in(journal.path) == orders(1, 2, 3, 4, 5)
    # The same identity and the next batch number.
    assert (after.checkpoint, after.batch_id) == (before.checkpoint, 2)
    assert "its checkpoint is missing" in after.notes[0]


def test_checkpoint_lost_after_the_very_first_batch_is_restored_too(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    send(topic, *orders(1, 2))
    drain(name, read(spark, topic), journal)
    lose_checkpoint(name)
    send(topic, *orders(3))
    drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == orders(1, 2, 3)


def test_checkpoint_from_an_old_copy_loses_no_row(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, tmp_path: Path
) -> None:
    """It would plan its next batch under a number that the target has, and the target would skip it."""
    send(topic, *orders(1))
    drain(name, read(spark, topic), journal)
    checkpoint = Registry(data_dir()).folder(name).path / "checkpoint"
    shutil.copytree(checkpoint, tmp_path / "copy")
    send(topic, *orders(2))
    drain(name, read(spark, topic), journal)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "copy", checkpoint)
    send(topic, *orders(3))
    assert "older than batch 1" in drain(name, read(spark, topic), journal).status().notes[0]
    assert rows_in(journal.path) == orders(1, 2, 3)


def test_job_with_state_is_rebuilt_by_replay_to_the_same_rows(
    spark: SparkSession, topic: str, send: Send, by_user: Journal, name: str
) -> None:
    send(topic, *orders(1, 2, 3, 4))
    drain(name, read(spark, topic).groupBy("user").count(), by_user)
    lose_checkpoint(name)
    with pytest.raises(BadJob, match=r"(?s)state of its aggregates or joins.*--rebuild"):
        drain(name, read(spark, topic).groupBy("user").count(), by_user)
    assert counted(by_user.path) == counts(1, 2, 3, 4)
    send(topic, *orders(5))
    with launch.using(Launch(rebuild=True)):
        drain(name, read(spark, topic).groupBy("user").count(), by_user)
    assert counted(by_user.path) == counts(1, 2, 3, 4, 5)


def test_state_in_a_table_survives_the_loss_of_the_checkpoint(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    table = Table("by_user", key="user", merge={"count": "sum"}, at=tmp_path / "views.db")
    rows = read(spark, topic).selectExpr("user", "CAST(1 AS BIGINT) AS count")
    for numbers in ((1, 2, 3), (4, 5)):
        send(topic, *orders(*numbers))
        drain(name, rows, table)
        lose_checkpoint(name)
    drain(name, rows, table)
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        found = database.execute("SELECT user, count FROM by_user ORDER BY user").fetchall()
    assert found == [(row["user"], row["count"]) for row in counts(1, 2, 3, 4, 5)]


def test_reset_job_replays_and_clears_its_target_only_on_request(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str
) -> None:
    send(topic, *orders(1, 2))
    drain(name, read(spark, topic), journal)
    Registry(data_dir()).reset(name)
    drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == sorted([*orders(1, 2), *orders(1, 2)], key=lambda row: row["n"])
    Registry(data_dir()).reset(name, clear_target=True)
    drain(name, read(spark, topic), journal)
    assert rows_in(journal.path) == orders(1, 2)


def test_two_jobs_of_one_name_do_not_share_a_target(
    spark: SparkSession, topic: str, send: Send, journal: Journal, name: str, tmp_path: Path
) -> None:
    send(topic, *orders(1, 2))
    drain(name, read(spark, topic), Journal(tmp_path / "own.db"))
    with launch.using(Launch(data_dir=tmp_path / "elsewhere")):
        drain(name, read(spark, topic), journal)
    with pytest.raises(BadJob, match="two jobs of this name"):
        drain(name, read(spark, topic), journal)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_state_is_rebuilt_from_checkpoint_and_changelog_on_another_machine(
    bootstrap: str, topic: str, send: Send, tmp_path: Path, name: str
) -> None:
    """Two processes with nothing in common but the data folder: no memory, no local disk of Spark's."""
    for machine, numbers in (("one", (1, 2, 3)), ("two", (4, 5, 6, 7))):
        send(topic, *orders(*numbers))
        run_counting(machine, bootstrap, topic, tmp_path, name)
        # Its JVM may still be deleting files there; the other machine does not use this folder.
        shutil.rmtree(tmp_path / machine, ignore_errors=True)
    assert counted(tmp_path / "by-user.db") == counts(1, 2, 3, 4, 5, 6, 7)


def run_counting(machine: str, bootstrap: str, topic: str, folder: Path, name: str) -> None:
    local = folder / machine
    local.mkdir()
    subprocess.run(
        [sys.executable, "-m", "tests.pipeline.counting_job", bootstrap, topic, str(folder), name],
        env={**os.environ, "SPARK_LOCAL_DIRS": str(local), "TMPDIR": str(local)},
        check=True,
        timeout=240,
    )


@pytest.mark.parametrize("left", ["offsets/.0.5e2c.tmp", "offsets/..0.5e2c.tmp.crc", "commits/.0.5e2c.tmp"])
def test_job_starts_after_a_crash_in_its_first_batch(
    spark: SparkSession, topic: str, send: Send, by_user: Journal, name: str, left: str
) -> None:
    """Spark rejects the first batch of a query with state if its checkpoint has a file."""
    checkpoint = Registry(data_dir()).folder(name).path / "checkpoint"
    (checkpoint / left).parent.mkdir(parents=True)
    (checkpoint / left).write_bytes(b"")
    send(topic, *orders(1, 2, 3))
    drain(name, read(spark, topic).groupBy("user").count(), by_user)
    assert counted(by_user.path) == counts(1, 2, 3)


def test_state_of_a_first_batch_that_was_never_planned_is_deleted(
    spark: SparkSession, topic: str, send: Send, by_user: Journal, name: str
) -> None:
    send(topic, *orders(1, 2, 3))
    rows = read(spark, topic).groupBy("user").count()
    with abort_at("before-write", job=name), pytest.raises(JobFailed):
        Job(name, rows, by_user, mode="batch").start().wait(WAIT_S)
    checkpoint = Registry(data_dir()).folder(name).path / "checkpoint"
    shutil.rmtree(checkpoint / "offsets")
    drain(name, rows, by_user)
    assert counted(by_user.path) == counts(1, 2, 3)


def test_missing_topic_is_an_error_at_the_start_that_names_the_nearest_one(
    spark: SparkSession, topic: str, journal: Journal, name: str
) -> None:
    with pytest.raises(BadSource, match=rf"there is no topic {topic}x \(did you mean {topic}\?"):
        Job(name, read(spark, f"{topic}x"), journal).start()
