"""Jobs that are aborted or killed at a point. tests/faults/test_jobs_killed.py kills them at every point."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.pipeline import Job
from headrace.pipeline.errors import JobFailed
from headrace.testing import Collect, Feed, abort_at
from headrace.testing.faults import AbortPoint, Kill, Killer

WAIT_S = 100


def test_kill_is_a_point_a_time_and_perhaps_a_number_of_jobs() -> None:
    assert Kill.from_text("after-write:3") == Kill(point="after-write", time=3)
    assert Kill.from_text("before-write:1:7") == Kill(point="before-write", time=1, jobs=7)


@pytest.mark.parametrize("text", ["", "after-write", "after-write:x", "somewhere:1", ":1"])
def test_invalid_kill_is_an_error(text: str) -> None:
    with pytest.raises(HeadraceError, match="is invalid"):
        Kill.from_text(text)


def test_wait_for_a_job_that_never_reaches_the_point_happens_once() -> None:
    killer = Killer(Kill(point="after-write", time=1, jobs=2), wait_s_max=0.1)
    for _ in range(10_000):  # a wait each would take longer than any test may
        killer.reached("after-write", "one")


@pytest.mark.parametrize(
    ("point", "left"), [("before-write", []), ("before-letters", ["ann"]), ("after-write", ["ann"])]
)
def test_aborted_job_replays_the_batch_and_writes_no_row_twice(
    spark: SparkSession, tmp_path: Path, headrace_name: str, point: AbortPoint, left: list[str]
) -> None:
    feed = Feed(spark, "user STRING", tmp_path / "feed")
    feed.send({"user": "ann"})
    collected = Collect()
    job = Job(headrace_name, feed.rows.select("user"), collected, mode="batch")
    with abort_at(point, job=headrace_name), pytest.raises(JobFailed, match=f"aborted at {point}"):
        job.start().wait(WAIT_S)
    assert [row["user"] for row in collected.rows] == left

    job.start().wait(WAIT_S)
    assert [row["user"] for row in collected.rows] == ["ann"]
