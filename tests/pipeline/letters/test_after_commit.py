"""Targets that Spark writes: all dead letters are written after the commits, each once.

Drivers that are killed are in tests/faults/test_letters_killed.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import Job, read_topic
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import JobFailed
from headrace.pipeline.letters.after_commit import POSITION_FILE
from headrace.pipeline.report.registry import JobState
from headrace.pipeline.sinks import Topic
from tests.compatibility.topic_contents import read_committed

pytestmark = pytest.mark.timeout(300)

WAIT_S = 250.0
ROWS_PER_BATCH = 2
Send = Callable[..., None]


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX", str(ROWS_PER_BATCH))
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTART_BACKOFF_S", "0")


class Copying:
    """A job that copies good records to another topic, at least once, with its checkpoint in a folder."""

    def __init__(self, spark: SparkSession, bootstrap: str, topic: str, checkpoint: Path) -> None:
        self.topic = topic
        self.checkpoint = checkpoint
        self.dead_letters: str | None = None
        self.sink = Topic(f"{topic}-out", guarantee="at-least-once")
        self._spark = spark
        self._bootstrap = bootstrap

    def rows(self) -> DataFrame:
        source = read_topic(self._spark, self.topic, schema="n INT NOT NULL", dead_letters=self.dead_letters)
        return source.select("n")

    def job(self) -> Job:
        return Job(f"{self.topic}-job", self.rows(), self.sink, mode="batch", checkpoint=self.checkpoint)

    def run(self) -> int:
        """To the end; how many letters it wrote."""
        running = self.job().start()
        assert running.wait(WAIT_S)
        assert running.status().state is JobState.DONE
        return running.status().dead_letters

    def commit_without_letters(self) -> None:
        """Like a driver that is killed before its dead letters are written: Spark commits, and no thread follows."""
        native = self.sink.native()
        assert native is not None
        stream = self.sink.prepare(self.rows()).writeStream.format(native.format).options(**native.options)
        query = stream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(int(WAIT_S))

    def letters(self) -> list[bytes]:
        return [message.value() for message in read_committed(self._bootstrap, f"dlq.{self.topic}-job")]

    def copied(self) -> list[int]:
        messages = read_committed(self._bootstrap, f"{self.topic}-out")
        return sorted(json.loads(message.value())["n"] for message in messages)


@pytest.fixture
def copying(spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path) -> Copying:
    return Copying(spark, bootstrap, topic, tmp_path / "checkpoint")


def test_dead_letters_of_all_batches_are_written_before_the_job_is_done(
    copying: Copying, topic: str, send: Send
) -> None:
    send(topic, {"n": 0}, b"bad 1", {"n": 2}, {"n": 3}, b"bad 4", b"bad 5", {"n": 6})
    assert copying.run() == 3
    assert copying.letters() == [b"bad 1", b"bad 4", b"bad 5"]
    assert copying.copied() == [0, 2, 3, 6]
    send(topic, b"bad 7")
    assert copying.run() == 1
    assert copying.letters() == [b"bad 1", b"bad 4", b"bad 5", b"bad 7"]


def test_next_start_writes_the_missing_dead_letters_of_committed_batches(
    copying: Copying, topic: str, send: Send
) -> None:
    send(topic, b"bad 0", {"n": 1})
    assert copying.run() == 1
    send(topic, b"bad 2", {"n": 3}, {"n": 4}, b"bad 5", b"bad 6", b"bad 7")
    copying.commit_without_letters()
    assert Checkpoint(copying.checkpoint).committed_batch() == 3
    assert copying.letters() == [b"bad 0"]
    assert copying.run() == 4
    assert copying.letters() == [b"bad 0", b"bad 2", b"bad 5", b"bad 6", b"bad 7"]


def test_dead_letters_that_the_position_file_does_not_have_are_not_written_twice(
    copying: Copying, topic: str, send: Send
) -> None:
    send(topic, b"bad 0", {"n": 1}, b"bad 2", b"bad 3")
    assert copying.run() == 3
    (copying.checkpoint / POSITION_FILE).unlink()
    send(topic, b"bad 4")
    copying.commit_without_letters()
    assert copying.run() == 1
    assert copying.letters() == [b"bad 0", b"bad 2", b"bad 3", b"bad 4"]
    (copying.checkpoint / POSITION_FILE).write_text("damaged")
    assert copying.run() == 0


def test_job_that_cannot_write_its_dead_letters_fails_and_its_next_start_writes_them(
    copying: Copying, topic: str, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_PIPELINE_RESTARTS_MAX", "1")
    send(topic, b"bad 0", {"n": 1}, b"bad 2")
    copying.dead_letters = "no topic has such a name"
    with pytest.raises(JobFailed, match="creating topic"):
        copying.job().start().wait(WAIT_S)
    copying.dead_letters = None
    assert copying.run() == 2
    assert copying.letters() == [b"bad 0", b"bad 2"]
    assert copying.copied() == [1]
