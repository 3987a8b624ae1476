"""Compare jobs and sinks with the same work in plain PySpark."""

from __future__ import annotations

from benchmarks.command import run_command
from benchmarks.pipeline.bench import FULL, QUICK, Bench, Subject
from benchmarks.pipeline.subjects.first_event import FirstEvent
from benchmarks.pipeline.subjects.jobs import Jobs
from benchmarks.pipeline.subjects.latency import Latency
from benchmarks.pipeline.subjects.table import Tables
from benchmarks.pipeline.subjects.topic_sink import TopicSink

SUBJECTS: tuple[type[Subject], ...] = (Jobs, TopicSink, Tables, Latency, FirstEvent)


if __name__ == "__main__":
    run_command(
        about="Compare jobs and sinks with the same work in plain PySpark.",
        name="pipeline",
        subjects=SUBJECTS,
        rows_example="job-*",
        bench=Bench,
        sizes=FULL,
        quick_sizes=QUICK,
    )
