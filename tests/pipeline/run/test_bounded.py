"""The run of bounded rows: one batch, written once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadJob, SinkUnavailable
from headrace.pipeline.letters.dead_letters import DeadLetters
from headrace.pipeline.run.bounded import BoundedRun
from headrace.pipeline.run.recovery import BOUNDED_PREFIX
from headrace.pipeline.sinks.sink import Sink
from tests.pipeline.failing_sink import FailingJournal, Trouble
from tests.pipeline.journal_sink import Journal, rows_in

WAIT_S = 250.0
ROWS = [{"n": 1}, {"n": 2}]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(1, 3).withColumnRenamed("id", "n")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def run_of(rows: DataFrame, sink: Sink, folder: Path, *, is_rebuild: bool = False) -> BoundedRun:
    return BoundedRun(
        rows,
        sink,
        checkpoint=Checkpoint(folder / "checkpoint"),
        letters=DeadLetters("j", (), spark=rows.sparkSession, bootstrap="127.0.0.1:1"),
        is_rebuild=is_rebuild,
    )


def finish(run: BoundedRun) -> None:
    run.start(lambda _progress: None)
    assert run.await_end(WAIT_S)
    run.close()


def test_rows_are_written_under_a_fence_that_is_no_checkpoint(
    rows: DataFrame, journal: Journal, tmp_path: Path
) -> None:
    run = run_of(rows, journal, tmp_path)
    assert run.check() == ()
    finish(run)
    assert rows_in(journal.path) == ROWS
    assert run.written() == {"dead_letters": 0, "bad_rows": 0, "rows_out": 2}
    assert (run.identity() or "").startswith(BOUNDED_PREFIX)


def test_retry_of_the_same_run_writes_nothing_twice_and_another_run_writes_again(
    rows: DataFrame, journal: Journal, tmp_path: Path
) -> None:
    run = run_of(rows, journal, tmp_path)
    for _attempt in range(2):
        finish(run)
    assert rows_in(journal.path) == ROWS
    finish(run_of(rows, journal, tmp_path))
    assert len(rows_in(journal.path)) == 2 * len(ROWS)


def test_rebuild_clears_the_target_first(rows: DataFrame, journal: Journal, tmp_path: Path) -> None:
    for _run in range(2):
        finish(run_of(rows, journal, tmp_path, is_rebuild=True))
    assert rows_in(journal.path) == ROWS


def test_failure_is_raised_to_the_caller_that_waits_and_the_next_start_continues(
    rows: DataFrame, journal: Journal, tmp_path: Path
) -> None:
    run = run_of(rows, FailingJournal(journal, Trouble(failures_left=1)), tmp_path)
    with pytest.raises(SinkUnavailable):
        finish(run)
    run.abandon()
    finish(run)
    assert rows_in(journal.path) == ROWS


def test_job_with_the_checkpoint_of_a_stream_is_rejected(
    rows: DataFrame, journal: Journal, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "one"}')
    with pytest.raises(BadJob, match="job j has a checkpoint of a stream"):
        run_of(rows, journal, tmp_path).check()
