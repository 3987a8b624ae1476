"""The jobs of a launch, and of a script that is started directly. What a launch does with them is in test_job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.pipeline import launch
from headrace.pipeline.errors import BadJob, JobFailed
from headrace.pipeline.graph.job_graph import RecordedJob
from headrace.pipeline.launch import Launch
from headrace.pipeline.run import launched as launched_module
from headrace.pipeline.run.launched import LaunchedJobs, add_direct, launched_jobs, launching, wait_for_jobs
from tests.pipeline.run.test_supervisor import Jobs, ScriptedRun

JOB = RecordedJob(name="j", reads=("topic a",), writes="topic b")


def test_script_that_is_started_directly_has_no_launched_jobs() -> None:
    assert launched_jobs() is None


def test_launch_collects_the_jobs_of_its_script_with_its_options() -> None:
    with launching(Launch(explain=True)) as launched:
        assert launch.current() == Launch(explain=True)
        assert launched_jobs() is launched
        launched.recorded.append(JOB)
    assert launched.recorded == [JOB]
    assert launched_jobs() is None


def test_next_launch_has_no_jobs_of_the_one_before() -> None:
    for _ in range(2):
        with launching(Launch()) as launched:
            assert (launched.recorded, launched.started) == ([], [])
            launched.recorded.append(JOB)


def test_launch_ends_with_its_script_if_the_script_fails() -> None:
    with pytest.raises(ZeroDivisionError), launching(Launch(once=True)):
        raise ZeroDivisionError
    assert (launched_jobs(), launch.current()) == (None, Launch())


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> Iterator[LaunchedJobs]:
    """The jobs that this test starts directly."""
    jobs = LaunchedJobs()
    monkeypatch.setattr(launched_module, "_direct", jobs)
    yield jobs
    jobs.stop()


def test_script_waits_for_all_jobs_and_then_raises_the_first_failure(
    direct: LaunchedJobs, tmp_path: Path, bootstrap: str
) -> None:
    runs = (ScriptedRun(BadJob("no column total")), ScriptedRun(None, None))
    for number, run in enumerate(runs):
        job = Jobs(tmp_path / str(number), bootstrap).job(run)
        job.start()
        add_direct(job)
    with pytest.raises(JobFailed, match="no column total"):
        wait_for_jobs()
    assert direct.running() == []


def test_program_that_ends_before_its_jobs_says_so(
    direct: LaunchedJobs, tmp_path: Path, bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Jobs(tmp_path, bootstrap).job(ScriptedRun(is_endless=True))
    job.start()
    add_direct(job)
    launched_module._report_ended()
    assert "before its jobs: j." in capsys.readouterr().err

    with launching(Launch()):
        wait_for_jobs()  # the launch waits
    job.stop()
    launched_module._report_ended()
    assert capsys.readouterr().err == ""
