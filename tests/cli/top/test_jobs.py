"""Jobs that report themselves to the topic of the cluster."""

from __future__ import annotations

import contextlib
import json

from confluent_kafka import Producer

from headrace.cli.command import connect
from headrace.cli.top.jobs import SEEN_MS_MAX, ReportedJobs
from headrace.clock import SystemClock
from headrace.pipeline.report.progress import JOBS_TOPIC
from headrace.pipeline.report.registry import JobState, JobStatus
from headrace.testing.manual_clock import ManualClock
from tests.cli.conftest import Headrace


def test_job_is_shown_as_it_reports_itself(headrace: Headrace, name: str) -> None:
    now_ms = SystemClock().now_ms()
    job = JobStatus(name=name, state=JobState.RUNNING, pid=1, mode="micro-batch", updated_ms=now_ms, lag=5)
    old = JobStatus(name=f"{name}-old", state=JobState.RUNNING, pid=1, mode="micro-batch", updated_ms=1)
    reports = [json.dumps(json.loads(each.to_json())) for each in (job, old)]
    headrace("produce", "headrace.jobs", stdin="\n".join(["not a report", *reports]) + "\n")

    jobs = json.loads(headrace("top", "--count", "1", "--format", "json").out)["jobs"]

    assert [each for each in jobs if each["name"].startswith(name)] == [json.loads(job.to_json())]
    assert f"{name} running" in headrace("top", "--count", "1").out


def test_job_is_shown_for_a_quarter_of_an_hour_after_its_last_report(
    bootstrap: str, producer: Producer, name: str
) -> None:
    clock = ManualClock(SystemClock().now_ms())
    job = JobStatus(name=name, state=JobState.RUNNING, pid=1, mode="micro-batch", updated_ms=clock.now_ms())
    producer.produce(JOBS_TOPIC, job.to_json())
    assert producer.flush(60) == 0
    with contextlib.closing(ReportedJobs(connect(bootstrap), clock)) as jobs:
        jobs.sample()
        clock.advance_ms(SEEN_MS_MAX)
        assert job in jobs.rows
        clock.advance_ms(1)
        assert job not in jobs.rows
