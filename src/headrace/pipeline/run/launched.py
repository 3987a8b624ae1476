"""The jobs that a script declares and starts under `headrace job run` and `headrace job explain`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.pipeline import launch
from headrace.pipeline.graph.job_graph import GraphJob
from headrace.pipeline.launch import Launch

if TYPE_CHECKING:
    from headrace.pipeline.run.supervisor import RunningJob


class RecordedJob(Struct, frozen=True, kw_only=True):
    """A declared job in words: what `headrace job explain` draws."""

    name: str
    reads: tuple[str, ...]
    writes: str
    dead_letters: tuple[str, ...]
    mode: str
    output_mode: str
    guarantee: str
    steps: tuple[str, ...]

    @property
    def in_graph(self) -> GraphJob:
        return GraphJob(
            name=self.name,
            reads=self.reads,
            writes=self.writes,
            dead_letters=self.dead_letters,
            about=(self.mode, self.guarantee),
        )


class LaunchedJobs:
    """The jobs that a script has declared and started so far."""

    def __init__(self) -> None:
        self.recorded: list[RecordedJob] = []
        self.started: list[RunningJob] = []
        self._lock = threading.Lock()

    def record(self, job: RecordedJob) -> None:
        with self._lock:
            self.recorded.append(job)

    def add(self, running: RunningJob) -> None:
        with self._lock:
            self.started.append(running)

    def writers_of(self, reads: Sequence[str]) -> list[RunningJob]:
        """The jobs started so far that write one of these sources."""
        with self._lock:
            return [running for running in self.started if running.status().target in reads]

    def wait(self) -> None:
        """Wait until all jobs have ended. Raises the first failure."""
        for running in list(self.started):
            running.wait()

    def stop(self) -> None:
        for running in list(self.started):
            running.stop()


_jobs: LaunchedJobs | None = None


def launched_jobs() -> LaunchedJobs | None:
    """The jobs of the current launch, or None if the script was started directly."""
    return _jobs


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
