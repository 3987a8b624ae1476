"""A started job: its query is started, watched, restarted after a failure, drained and stopped.

    starting → running ⇄ waiting to restart → failed
                  └→ stopped (on request), done (everything processed)

One thread per job waits for the end of the query and checks for requests to stop. It never touches a row.
"""

from __future__ import annotations

import abc
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError
from headrace.pipeline import points
from headrace.pipeline.errors import BadJob, JobFailed
from headrace.pipeline.report.registry import ENDS, JobState, JobStatus
from headrace.pipeline.report.reporter import JobReport
from headrace.pipeline.run import failures

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.pipeline.folders.folder import Lock
    from headrace.pipeline.report.registry import JobFolder
    from headrace.pipeline.report.reporter import OnProgress
    from headrace.pipeline.settings import PipelineSettings

logger = logging.getLogger("headrace.pipeline")

LOOK_S = 0.2
"""Interval of the check for a request to stop; the end of a query is seen immediately."""

NOTES_MAX = 10

DRAIN_S_MAX = 60.0
"""A batch that takes longer is aborted when its job is stopped. The next start writes its rows."""


class Run(abc.ABC):
    """A run of a job, started any number of times in sequence: `StreamRun` or `BoundedRun`."""

    query: StreamingQuery | None = None
    is_started = False
    ends_by_itself = True
    """Whether it ends without a request."""

    @abc.abstractmethod
    def check(self) -> tuple[str, ...]:
        """Call it before the first start: raises if the job cannot run, returns warnings."""

    @abc.abstractmethod
    def start(self, on_progress: OnProgress) -> str:
        """Start. `on_progress` gets Spark's progress of each batch. Returns a note on how the run was started."""

    @abc.abstractmethod
    def identity(self) -> str | None: ...

    @abc.abstractmethod
    def await_end(self, timeout_s: float) -> bool:
        """Whether it has ended. Raises its failure."""

    @abc.abstractmethod
    def drain(self, timeout_s: float) -> None:
        """End after the batch in flight."""

    def is_complete(self) -> bool:
        """Whether it has ended at the offsets that it was given, and not because of a failure."""
        return False

    def cause_of(self, error: Exception) -> Exception:
        """The original error, if Spark's report wraps it."""
        return error

    @abc.abstractmethod
    def written(self) -> dict[str, int]:
        """What was written since the job was started: fields of the status."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """After a failure: release everything that the next start opens again."""

    @abc.abstractmethod
    def close(self) -> None: ...


class RunningJob:
    """What `Job.start()` returns."""

    def __init__(
        self,
        status: JobStatus,
        run: Run,
        *,
        folder: JobFolder,
        settings: PipelineSettings,
        checkpoint_lock: Lock | None = None,
        upstream: Sequence[RunningJob] = (),
    ) -> None:
        self.name = status.name
        self._run = run
        self._folder = folder
        self._checkpoint_lock = checkpoint_lock
        self._settings = settings
        self._upstream = upstream
        self._report = JobReport(folder, status)
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._failures_in_a_row = 0
        self._failure: Exception | None = None
        self._first_failure: Exception | None = None
        self._thread = threading.Thread(target=self._supervise, name=f"headrace-job-{self.name}", daemon=True)

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's own query, another one after a restart; None before the first, and for bounded jobs."""
        return self._run.query

    def status(self) -> JobStatus:
        return self._report.status

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended; False if it still runs after the timeout. Raises if it failed."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        # In short waits: on some platforms Ctrl-C cannot interrupt a wait without a timeout.
        while not self._ended.wait(LOOK_S):
            if deadline_s is not None and time.monotonic() > deadline_s:
                return False
        if self._failure is not None:
            raise JobFailed(
                f"job {self.name} failed: {failures.in_short(self._failure)}",
                hint=failures.hint(self._failure)
                or "fix the cause and start it again: it resumes from its checkpoint",
            ) from self._failure
        return True

    def stop(self, timeout_s: float = DRAIN_S_MAX) -> None:
        """Drain and stop: the batch in flight is finished first. Nothing is lost if that takes too long."""
        self._stopping.set()
        self._ended.wait(timeout_s + LOOK_S)

    def start(self) -> None:
        """Raises permanent failures; others are retried."""
        self._take()
        try:
            self._report.change(JobState.STARTING, notes=self._run.check())
            if not self._upstream:
                self._start_run()
        except Exception as error:
            if failures.is_permanent(error):
                self._end(JobState.FAILED, error)  # the caller reports it
                raise
            self._first_failure = error
        self._thread.start()

    def _take(self) -> None:
        """Become the only process that runs the job, and that writes its checkpoint."""
        self._folder.take()
        lock = self._checkpoint_lock
        try:
            if lock is not None and not lock.take():
                raise BadJob(
                    f"job {self.name} runs already, in {lock.holder() or 'another process'}: it holds the lock of the "
                    "checkpoint",
                    hint="stop it there, or give this job another checkpoint",
                )
        except BaseException:
            self._folder.release()
            raise

    def _release(self) -> None:
        try:
            if self._checkpoint_lock is not None:
                self._checkpoint_lock.release()
        finally:
            self._folder.release()

    def _require_locks(self) -> None:
        loss = self._folder.loss() or (self._checkpoint_lock.loss() if self._checkpoint_lock else "")
        if loss:
            raise BadJob(
                f"job {self.name} no longer has its checkpoint: {loss}",
                hint="one process runs a job; this one ends, and nothing is lost",
            )

    def mark_recorded(self) -> None:
        """End a job that is only recorded and never started."""
        self._ended.set()

    def _supervise(self) -> None:
        try:
            self._wait_for_upstream()
            state, failure = self._run_until_end()
        except Exception as error:
            logger.exception("job %s: the supervisor failed", self.name)
            state, failure = JobState.FAILED, error
        if failure is not None:
            logger.error("job %s failed: %s", self.name, failures.in_short(failure))
        self._end(state, failure)

    def _wait_for_upstream(self) -> None:
        for other in self._upstream:
            self._report.change(JobState.WAITING)
            while not other._ended.wait(LOOK_S):
                if self._is_stop_requested():
                    return

    def _run_until_end(self) -> tuple[JobState, Exception | None]:
        while not self._is_stop_requested():
            try:
                self._raise_first_failure()
                self._start_run()
                self._watch()
                is_done = self._run.ends_by_itself and not self._stopping.is_set()
                return (JobState.DONE if is_done else JobState.STOPPED), None
            except Exception as error:
                if self._stopping.is_set():
                    break
                if self._run.is_complete():
                    return JobState.DONE, None
                cause = self._run.cause_of(error)
                if not self._may_restart(cause):
                    return JobState.FAILED, cause
        return JobState.STOPPED, None

    def _raise_first_failure(self) -> None:
        """A target that is unavailable at the start is treated like one that fails later."""
        failure, self._first_failure = self._first_failure, None
        if failure is not None:
            raise failure

    def _start_run(self) -> None:
        if self._run.is_started:
            return
        note = self._run.start(self._on_progress)
        notes = self.status().notes
        if note:
            logger.warning("job %s: %s", self.name, note)
            notes = (*notes, note)[-NOTES_MAX:]
        self._report.change(JobState.RUNNING, checkpoint=self._run.identity() or "", notes=notes)

    def _watch(self) -> None:
        """Wait until the query ends or is stopped. Raises its failure."""
        while not self._run.await_end(LOOK_S):
            self._require_locks()
            if self._is_stop_requested():
                self._run.drain(DRAIN_S_MAX)
                return

    def _is_stop_requested(self) -> bool:
        if self._folder.is_stop_requested():
            self._stopping.set()
        return self._stopping.is_set()

    def _may_restart(self, cause: Exception) -> bool:
        """After a failure: back off and return True, or False if a restart cannot help or the limit is reached."""
        self._run.abandon()
        self._failures_in_a_row += 1
        settings = self._settings
        is_over = self._failures_in_a_row > settings.restarts_max
        if failures.is_permanent(cause) or is_over:
            return False
        pause_s = min(
            settings.restart_backoff_s * 2 ** (self._failures_in_a_row - 1), settings.restart_backoff_s_max
        )
        logger.warning("job %s failed and restarts in %g s: %s", self.name, pause_s, failures.in_short(cause))
        self._report.change(
            JobState.RESTARTING, error=failures.in_short(cause), restarts=self.status().restarts + 1
        )
        until_s = time.monotonic() + pause_s
        while time.monotonic() < until_s and not self._is_stop_requested():
            time.sleep(min(LOOK_S, max(0.0, until_s - time.monotonic())))
        return True

    def _on_progress(self, progress: Mapping[str, Any]) -> None:
        """In Spark's listener thread: a batch was committed."""
        points.reached("after-commit", job=self.name)
        self._failures_in_a_row = 0
        self._report.batch(progress, **self._run.written())

    def _end(self, state: JobState, failure: Exception | None) -> None:
        assert state in ENDS
        self._failure = failure
        try:
            self._run.close()
        except Exception:
            logger.exception("job %s: the sink could not be closed", self.name)
        fields: dict[str, Any] = dict(self._run.written())
        if failure is not None:
            fields["error"] = failures.in_short(failure)
        self._report.change(state, **fields)
        self._report.close()
        try:
            self._folder.clear_stop()
            self._release()
        except HeadraceError as error:
            logger.warning("job %s: its folder could not be released: %s", self.name, error)
        self._ended.set()
