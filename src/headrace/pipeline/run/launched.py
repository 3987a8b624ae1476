"""The jobs that a script declares and starts: under `headrace job run` and `headrace job explain`, or directly."""

from __future__ import annotations

import atexit
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.pipeline import launch
from headrace.pipeline.errors import JobFailed
from headrace.pipeline.launch import Launch
from headrace.pipeline.report.registry import ENDS, JobState

if TYPE_CHECKING:
    from headrace.pipeline.graph.job_graph import RecordedJob
    from headrace.pipeline.run.supervisor import RunningJob


class LaunchedJobs(Struct):
    """The jobs that a script has declared and started so far, in any of its threads."""

    recorded: list[RecordedJob] = []
    started: list[RunningJob] = []

    def writers_of(self, reads: Sequence[str]) -> list[RunningJob]:
        """The jobs started so far that write one of these sources."""
        return [running for running in list(self.started) if running.status().target in reads]

    def running(self) -> list[RunningJob]:
        return [each for each in list(self.started) if each.status().state not in ENDS]

    def wait(self) -> None:
        """Wait until all jobs have ended. Then raise the first failure."""
        failed: JobFailed | None = None
        for each in list(self.started):
            try:
                each.wait()
            except JobFailed as failure:
                failed = failed or failure
        if failed is not None:
            raise failed

    def stop(self) -> None:
        """Stop all jobs after their current batches, side by side."""
        threads = [threading.Thread(target=each.stop, daemon=True) for each in list(self.started)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


_jobs: LaunchedJobs | None = None
_direct = LaunchedJobs()


def launched_jobs() -> LaunchedJobs | None:
    """The jobs of the current launch, or None if the script was started directly."""
    return _jobs


def add_direct(job: RunningJob) -> None:
    """Remember a job of a script that was started directly."""
    if not _direct.started:
        atexit.register(_report_ended)
    is_over = {JobState.DONE, JobState.STOPPED}
    _direct.started = [*(each for each in _direct.started if each.status().state not in is_over), job]


def wait_for_jobs() -> None:
    """At the end of a script: wait until its jobs have ended, and raise the first failure.

    Without this, `python SCRIPT` ends with its last line, and its jobs with it. Ctrl-C and SIGTERM stop the jobs after
    their current batches. Under `headrace job run` it returns immediately, because the command waits.
    """
    if launched_jobs() is not None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _direct.wait()
    except KeyboardInterrupt:
        _direct.stop()


def _report_ended() -> None:
    names = [each.name for each in _direct.running()]
    if names:
        print(
            f"headrace: the program ended before its jobs: {', '.join(names)}. The next run continues at their "
            "checkpoints\n  hint: wait_for_jobs() as the last line of the script waits for them, and so does "
            "`headrace job run`",
            file=sys.stderr,
        )


@contextlib.contextmanager
def launching(options: Launch) -> Iterator[LaunchedJobs]:
    """Run a script inside with these options, and collect its jobs."""
    global _jobs
    before, _jobs = _jobs, LaunchedJobs()
    try:
        with launch.using(options):
            yield _jobs
    finally:
        _jobs = before
