"""The step of a job for each micro-batch."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.pipeline import read_topic
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.letters.dead_letters import DeadLetters
from headrace.pipeline.letters.late_rows import LateRows
from headrace.pipeline.run.batch_step import BatchStep, JobStopping, bad_counts
from tests.pipeline.journal_sink import Journal, JournalWriter, rows_in
from tests.pipeline.test_job import drain

pytestmark = pytest.mark.timeout(300)

NO_SPARK = cast("SparkSession", None)


def event(user: str, minute: int) -> dict[str, Any]:
    return {"user": user, "at": f"2026-03-01T10:{minute:02}:30Z"}


@pytest.fixture
def step(tmp_path: Path) -> BatchStep:
    letters = DeadLetters("j", (), spark=NO_SPARK, bootstrap="127.0.0.1:1")
    return BatchStep(
        spark=NO_SPARK,
        writer=JournalWriter(Journal(tmp_path / "journal.db"), "j"),
        checkpoint=Checkpoint(tmp_path),
        letters=letters,
        late_rows=LateRows(letters, (), checkpoint=tmp_path),
        replayed_batch=None,
        watermark_columns=(),
    )


def test_closed_step_accepts_no_batch_and_does_not_count_it_as_a_failure(step: BatchStep) -> None:
    step.close(timeout_s=0)
    with pytest.raises(JobStopping):
        step.call(None, 0)
    assert (step.failure, step.last_written) == (None, None)


def test_failure_of_a_batch_is_kept_as_the_cause(step: BatchStep) -> None:
    with pytest.raises(AttributeError) as failed:
        step.call(None, 0)
    assert step.failure is failed.value


def test_only_other_errors_than_a_stop_are_logged_by_py4j(
    step: BatchStep, caplog: pytest.LogCaptureFixture
) -> None:
    py4j = logging.getLogger("py4j.clientserver")
    with caplog.at_level(logging.INFO, logger="py4j.clientserver"):
        for error in (JobStopping("j is stopping"), ValueError("a row")):
            py4j.info("There was an exception while executing the Python Proxy", exc_info=error)
    assert [
        record.exc_info[1].args for record in caplog.records if record.exc_info and record.exc_info[1]
    ] == [("a row",)]


def test_bad_records_of_each_source_are_read_from_the_observed_metrics() -> None:
    observed = (
        "Map(headrace.bad:a1 -> [3], headrace.late:x -> [7,8], headrace.bad:b2 -> [0,WrappedArray(5, 6)], "
        "headrace.bad:c3@01 -> [4], headrace.bad:c3@02 -> [4])"
    )
    assert bad_counts(observed) == {"headrace.bad:a1": 3, "headrace.bad:b2": 0, "headrace.bad:c3": 4}


@pytest.mark.parametrize(
    "window",
    [op.Tumbling("1 minute", by="user"), op.Session(gap="1 minute", by="user")],
    ids=["tumbling", "session"],
)
def test_results_of_windows_of_spark_have_the_watermark_of_their_batch(
    spark: SparkSession, topic: str, send: Callable[..., None], tmp_path: Path, name: str, window: Any
) -> None:
    def results(window: op.Operator, kind: str) -> list[dict[str, Any]]:
        rows = read_topic(
            spark, topic, schema="user STRING, at TIMESTAMP", event_time="at", watermark="30 seconds"
        )
        journal = Journal(tmp_path / f"{kind}.db")
        drain(f"{name}-{kind}", rows.transform(window), journal)
        return rows_in(journal.path)

    for part in ([event("ann", 1), event("bob", 5)], [event("ann", 20)]):
        send(topic, *part)
        of_spark = results(window, "spark")
        of_headrace = results(replace(window, trigger=op.Trigger()), "headrace")
    assert len(of_spark) == 2
    assert all(str(row["watermark"]) >= str(row["window_end"]) for row in of_spark)
    assert sorted(map(str, of_spark)) == sorted(map(str, of_headrace))
