"""The panel of the job of `headrace run`, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.cli.demo.clicks_by_url import JOB
from headrace.cli.demo.job_panel import JobPanel, process_age_ms
from headrace.cli.demo.processes import JobProcess
from headrace.pipeline.report.registry import JobState, JobStatus, Registry
from headrace.testing.manual_clock import ManualClock

STATUS = JobStatus(name=JOB, state=JobState.STOPPED, pid=1, mode="micro-batch")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def job(tmp_path: Path) -> JobProcess:
    job = JobProcess(bootstrap="127.0.0.1:1", data_dir=tmp_path)
    job.missing = ""
    return job


@pytest.fixture
def panel(job: JobProcess, tmp_path: Path, clock: ManualClock) -> JobPanel:
    """Of a command that was started half a second ago, and whose broker has just become ready."""
    return JobPanel(job, tmp_path, clock, started_ms=clock.now_ms() - 500)


def write(data_dir: Path, status: JobStatus) -> None:
    folder = Registry(data_dir).folder(JOB)
    (folder.path / "checkpoint").mkdir(parents=True, exist_ok=True)
    folder.write(status)


def test_waiting_time_is_shown_until_the_job_has_a_status(panel: JobPanel, clock: ManualClock) -> None:
    clock.advance_ms(7_000)
    panel.sample()

    assert panel.summary() == "jobs: Spark starts … 7 s"


def test_status_of_an_earlier_run_is_not_shown(panel: JobPanel, tmp_path: Path, clock: ManualClock) -> None:
    write(tmp_path, replace(STATUS, started_ms=clock.now_ms() - 60_000))
    panel.sample()

    assert panel.rows == []


def test_missing_software_is_shown(panel: JobPanel, job: JobProcess) -> None:
    job.missing = "the job needs Java"
    panel.sample()

    assert panel.summary() == "jobs: the job needs Java"


def test_time_of_each_step_to_the_first_event_is_shown_once(
    panel: JobPanel, job: JobProcess, tmp_path: Path, clock: ManualClock
) -> None:
    ready_ms = clock.now_ms()
    job.milestones += [(ready_ms + 1_000, "Python"), (ready_ms + 5_000, "Spark")]
    write(
        tmp_path,
        replace(STATUS, started_ms=ready_ms + 5_500, updated_ms=ready_ms + 8_000, rows_in=10, batch_id=0),
    )
    panel.sample()

    status, steps = panel.summary().splitlines()
    assert status.startswith(f"{JOB} stopped, batch 0")
    assert (
        steps
        == "first event processed after 8.5 s: broker 0.5 s, Python 1.0 s, Spark 4.0 s, first batch 3.0 s"
    )
    panel.sample()
    assert len(panel.summary().splitlines()) == 1


def test_age_of_this_process_grows() -> None:
    first = process_age_ms()

    assert first > 0
    assert process_age_ms() >= first
