"""Measure jobs and sinks beside the same work in plain PySpark."""

from __future__ import annotations

from pathlib import Path

from benchmarks.command import run_command
from benchmarks.pipeline.bench import FULL, QUICK, Bench, Subject
from benchmarks.pipeline.subjects.first_event import FirstEvent
from benchmarks.pipeline.subjects.jobs import Jobs
from benchmarks.pipeline.subjects.latency import Latency
from benchmarks.pipeline.subjects.table import Tables
from benchmarks.pipeline.subjects.topic_sink import TopicSink
from benchmarks.runner import Say

SUBJECTS: tuple[type[Subject], ...] = (Jobs, TopicSink, Tables, Latency, FirstEvent)


def make_bench(is_quick: bool, workplace: Path, rows_wanted: str, say: Say) -> Bench:
    return Bench(sizes=QUICK if is_quick else FULL, workplace=workplace, rows_wanted=rows_wanted, say=say)


if __name__ == "__main__":
    run_command(
        about="Measure jobs and sinks beside the same work in plain PySpark.",
        name="pipeline",
        subjects=SUBJECTS,
        rows_example="job-*",
        make_bench=make_bench,
    )
