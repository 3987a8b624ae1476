"""A started job: restarts, the back-off, failures and stops. The run is scripted; streams are in test_stream."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.pipeline.errors import BadJob, JobFailed, SinkUnavailable
from headrace.pipeline.folders import lease as leases
from headrace.pipeline.folders.folder import Lock
from headrace.pipeline.folders.lease import Lease
from headrace.pipeline.folders.local import LocalFolder
from headrace.pipeline.report.registry import JobFolder, JobState, JobStatus
from headrace.pipeline.report.reporter import OnProgress
from headrace.pipeline.run.supervisor import Run, RunningJob
from headrace.pipeline.settings import PipelineSettings

WAIT_S = 60.0
COMMITTED = {"batchId": 0, "numInputRows": 1, "runId": "r"}
UNAVAILABLE = SinkUnavailable("the target is unavailable")


class ScriptedRun(Run):
    """Each start performs the next step: it raises an error, commits a batch and raises, or (None) runs to its end."""

    def __init__(self, *steps: Exception | None, commits: bool = False, is_endless: bool = False) -> None:
        self.ends_by_itself = not is_endless
        self.starts = 0
        self.is_drained = False
        self.is_closed = False
        self._steps = list(steps)
        self._commits = commits

    def check(self) -> tuple[str, ...]:
        return ("a filter has changed",)

    def start(self, on_progress: OnProgress) -> str:
        self.starts += 1
        self.is_started = True
        if self._commits:
            on_progress(COMMITTED)
        return f"start {self.starts}"

    def identity(self) -> str | None:
        return "one"

    def await_end(self, timeout_s: float) -> bool:
        step = self._steps.pop(0) if self._steps else None
        if step is not None:
            raise step
        return self.ends_by_itself

    def drain(self, timeout_s: float) -> None:
        self.is_drained = True

    def written(self) -> dict[str, int]:
        return {"rows_out": self.starts}

    def abandon(self) -> None:
        self.is_started = False

    def close(self) -> None:
        self.is_closed = True


class Jobs:
    """Supervises scripted runs, with status files in a folder and reports to a broker."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = JobFolder(folder / "j")
        self._bootstrap = bootstrap

    def job(
        self,
        run: Run,
        *,
        restarts_max: int = 10,
        upstream: Sequence[RunningJob] = (),
        checkpoint_lock: Lock | None = None,
    ) -> RunningJob:
        status = JobStatus(
            name="j", state=JobState.STARTING, pid=1, mode="micro-batch", bootstrap=self._bootstrap
        )
        settings = PipelineSettings(restarts_max=restarts_max, restart_backoff_s=0)
        return RunningJob(
            status,
            run,
            folder=self.folder,
            settings=settings,
            upstream=upstream,
            checkpoint_lock=checkpoint_lock,
        )


@pytest.fixture
def jobs(tmp_path: Path, bootstrap: str) -> Jobs:
    return Jobs(tmp_path, bootstrap)


def test_run_that_ends_is_done_and_its_files_are_released(jobs: Jobs) -> None:
    run = ScriptedRun()
    job = jobs.job(run)
    job.start()
    assert job.wait(WAIT_S)
    status = jobs.folder.read()
    assert status == job.status()
    assert (status.state, status.checkpoint, status.rows_out) == (JobState.DONE, "one", 1)
    assert status.notes == ("a filter has changed", "start 1")
    assert run.is_closed
    assert not jobs.folder.is_taken()


def test_run_that_fails_is_restarted(jobs: Jobs) -> None:
    run = ScriptedRun(UNAVAILABLE, UNAVAILABLE)
    job = jobs.job(run)
    job.start()
    assert job.wait(WAIT_S)
    assert (run.starts, job.status().restarts, job.status().state) == (3, 2, JobState.DONE)


def test_job_fails_after_the_maximum_of_failures_in_a_row(jobs: Jobs) -> None:
    run = ScriptedRun(*[UNAVAILABLE] * 3)
    job = jobs.job(run, restarts_max=2)
    job.start()
    with pytest.raises(JobFailed, match="job j failed: the target is unavailable") as failed:
        job.wait(WAIT_S)
    assert failed.value.__cause__ is UNAVAILABLE
    assert (run.starts, job.status().state, job.status().error) == (3, JobState.FAILED, str(UNAVAILABLE))
    assert run.is_closed


def test_committed_batch_resets_the_count_of_failures(jobs: Jobs) -> None:
    run = ScriptedRun(*[UNAVAILABLE] * 3, commits=True)
    job = jobs.job(run, restarts_max=1)
    job.start()
    assert job.wait(WAIT_S)
    assert (job.status().restarts, job.status().rows_in) == (3, 4)


def test_permanent_failure_is_not_retried(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    run = ScriptedRun(BadJob("no column total"))
    job = jobs.job(run)
    job.start()
    with pytest.raises(JobFailed, match="no column total"):
        job.wait(WAIT_S)
    assert run.starts == 1
    assert len([line for line in caplog.messages if "no column total" in line]) == 1


def test_permanent_failure_of_the_start_is_raised_immediately_and_reported_by_the_caller_only(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    class WrongRun(ScriptedRun):
        def check(self) -> tuple[str, ...]:
            raise BadJob("another plan")

    job = jobs.job(WrongRun())
    with pytest.raises(BadJob, match="another plan"):
        job.start()
    assert job.status().state is JobState.FAILED
    assert not jobs.folder.is_taken()
    assert caplog.messages == []


def test_failure_of_the_first_start_is_retried_like_a_later_one(jobs: Jobs) -> None:
    class LateRun(ScriptedRun):
        def start(self, on_progress: OnProgress) -> str:
            note = super().start(on_progress)
            if self.starts == 1:
                self.is_started = False
                raise UNAVAILABLE
            return note

    job = jobs.job(LateRun())
    job.start()
    assert job.wait(WAIT_S)
    assert job.status().restarts == 1


@pytest.mark.parametrize("by_file", [False, True])
def test_job_is_drained_when_it_is_stopped(jobs: Jobs, by_file: bool) -> None:
    run = ScriptedRun(is_endless=True)
    job = jobs.job(run)
    job.start()
    assert not job.wait(0)
    if by_file:
        jobs.folder.request_stop()
    else:
        job.stop()
    assert job.wait(WAIT_S)
    assert run.is_drained
    assert job.status().state is JobState.STOPPED
    assert not jobs.folder.is_stop_requested()


def test_job_starts_after_the_jobs_whose_output_it_reads(jobs: Jobs, tmp_path: Path, bootstrap: str) -> None:
    is_open = threading.Event()

    class GatedRun(ScriptedRun):
        def await_end(self, timeout_s: float) -> bool:
            return is_open.wait(timeout_s)

    first = Jobs(tmp_path / "other", bootstrap).job(GatedRun())
    first.start()
    run = ScriptedRun()
    second = jobs.job(run, upstream=[first])
    second.start()
    assert run.starts == 0
    is_open.set()
    assert second.wait(WAIT_S)
    assert first.wait(0)
    assert run.starts == 1


def test_checkpoint_that_another_process_uses_is_an_error_that_names_it(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    other, own = (Lease(LocalFolder(tmp_path / "lock")) for _ in range(2))
    assert other.take()
    with pytest.raises(BadJob, match=rf"job j runs already, in process {os.getpid()} on "):
        jobs.job(ScriptedRun(), checkpoint_lock=own).start()
    assert not jobs.folder.is_taken()
    other.release()
    job = jobs.job(ScriptedRun(), checkpoint_lock=own)
    job.start()
    assert job.wait(WAIT_S)
    assert not other.is_taken()


def test_job_that_has_lost_its_checkpoint_ends(
    jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ScriptedRun(is_endless=True)
    job = jobs.job(run, checkpoint_lock=Lease(LocalFolder(tmp_path / "lock")))
    job.start()
    monkeypatch.setattr(leases, "GIVE_UP_S", -1.0)
    with pytest.raises(JobFailed, match="no longer has its checkpoint: the lease could not be renewed"):
        job.wait(WAIT_S)
    assert (run.starts, run.is_closed) == (1, True)
