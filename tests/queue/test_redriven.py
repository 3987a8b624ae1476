"""A record that has several dead letters of jobs is redriven once."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.queue.dead_letters import DeadLetters, matching
from tests.compatibility.topic_contents import read_to_end, write
from tests.queue.job_letters import job_letter


class Jobs:
    """Two jobs that read one topic, and their dead letters."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self.topic = topic
        self.one, self.two = f"{topic}-one", f"{topic}-two"

    def write(self, job: str, offset: int, *, into: str = "", **what: Any) -> None:
        write(self._bootstrap, into or f"dlq.{job}", [job_letter(job, self.topic, offset, **what)])

    def letters(self, job: str, *, topic: str | None = None) -> DeadLetters:
        return DeadLetters(job, bootstrap=self._bootstrap, topic=topic)

    def listed(self, job: str, **options: Any) -> list[tuple[bytes | None, str]]:
        return [(letter.value, letter.reason) for letter in self.letters(job, **options).read()]

    def appended(self) -> list[bytes]:
        return [message.value() for message in read_to_end(self._bootstrap, self.topic)]


@pytest.fixture
def jobs(bootstrap: str, topic: str) -> Jobs:
    return Jobs(bootstrap, topic)


def test_record_that_two_jobs_can_not_parse_is_redriven_once(jobs: Jobs) -> None:
    for job in (jobs.one, jobs.two):
        jobs.write(job, 5)
    assert jobs.letters(jobs.one).redrive().redriven == 1
    assert jobs.listed(jobs.two) == []
    assert jobs.letters(jobs.two).redrive().redriven == 0
    assert jobs.appended() == [b"bad 5"]


def test_jobs_that_share_a_dead_letter_topic_redrive_a_record_once(jobs: Jobs, name: str) -> None:
    shared = f"{name}.dead"
    for job in (jobs.one, jobs.two):
        jobs.write(job, 5, into=shared)
    assert jobs.listed(jobs.one, topic=shared) == [(b"bad 5", "not JSON")]
    assert jobs.letters(jobs.two, topic=shared).redrive().redriven == 1
    assert jobs.listed(jobs.one, topic=shared) == []
    assert jobs.appended() == [b"bad 5"]


def test_job_that_was_reset_lists_and_redrives_a_record_once(jobs: Jobs) -> None:
    for _run in range(2):
        jobs.write(jobs.one, 5)
    assert jobs.listed(jobs.one) == [(b"bad 5", "not JSON")]
    assert jobs.letters(jobs.one).redrive().redriven == 1
    jobs.write(jobs.one, 5)  # a third run, after the redrive
    assert jobs.listed(jobs.one) == []
    assert jobs.letters(jobs.one).redrive().redriven == 0
    assert jobs.appended() == [b"bad 5"]


def test_another_reason_is_listed_and_the_record_is_still_redriven_once(jobs: Jobs) -> None:
    jobs.write(jobs.one, 5, reason="field n is missing")
    jobs.write(jobs.one, 5, reason="field m is missing")
    assert [reason for _, reason in jobs.listed(jobs.one)] == ["field n is missing", "field m is missing"]
    done = jobs.letters(jobs.one).redrive(matching("field m"))
    assert (done.redriven, done.left) == (1, 1)
    assert jobs.listed(jobs.one) == []
    assert jobs.appended() == [b"bad 5"]


def test_record_of_a_topic_that_was_created_again_is_another_record(jobs: Jobs) -> None:
    jobs.write(jobs.one, 5)
    jobs.letters(jobs.one).redrive()
    jobs.write(jobs.one, 5, time="2026-11-17T12:00:00.000Z")
    assert jobs.letters(jobs.one).redrive().redriven == 1
    assert jobs.appended() == [b"bad 5", b"bad 5"]
