from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.gateway.catalog.jobs import GROUP_PREFIX, JOBS_TOPIC, job_user, last_reports
from headrace.gateway.catalog.model import User, UserKind
from headrace.pipeline.report import progress
from headrace.pipeline.report.registry import JobState, JobStatus


def test_the_report_of_a_job_is_read() -> None:
    status = JobStatus(
        name="shop",
        state=JobState.RUNNING,
        pid=1,
        mode="",
        sources=("topic clicks", "topics logs-.*", "files x"),
        target="topic shop-clicks",
        dead_letter_topics=("dlq.shop",),
    )
    (report,) = last_reports([b"{}", b"junk", msgspec.json.encode(progress.record_of(status, None))])
    assert report.user == User(UserKind.JOB, "shop")
    assert (report.reads, report.patterns) == ({"clicks"}, {"logs-.*"})
    assert report.writes == {"shop-clicks", "dlq.shop"}


def test_names_are_those_of_jobs() -> None:
    assert (JOBS_TOPIC, GROUP_PREFIX) == (progress.JOBS_TOPIC, progress.GROUP_PREFIX)


def test_the_last_report_of_a_job_counts_and_a_view_is_recognized() -> None:
    values = [
        msgspec.json.encode({"name": "view.by_city.3", "target": target}) for target in ("a", "topic b")
    ]
    (report,) = last_reports(values)
    assert (report.user, report.writes) == (User(UserKind.VIEW, "by_city"), {"b"})
    assert job_user("view.x") == User(UserKind.JOB, "view.x")


@given(st.lists(st.binary(max_size=50) | st.just(b"[" * 20_000)))
def test_any_bytes_are_skipped(values: list[bytes]) -> None:
    assert last_reports(values) == []
