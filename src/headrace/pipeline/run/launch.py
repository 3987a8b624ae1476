"""How a script with jobs was launched: by itself, or by `headrace job run` with options that change what it does.

The script stays the same; `session`, `read_topic` and `Job.start` ask here. Nothing of Spark is imported.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.values import value

if TYPE_CHECKING:
    from headrace.pipeline.run.supervisor import RunningJob


@value
class Launch:
    """Options of a launch; what is None or False leaves the script's own word in force.

    once       every job drains what is there and ends; a job that reads what another one writes comes after it
    explain    jobs are only declared, not started
    rebuild    every job clears its target, forgets its checkpoint and replays from the start
    """

    once: bool = False
    explain: bool = False
    rebuild: bool = False
    bootstrap: str | None = None
    master: str | None = None
    data_dir: Path | None = None


@value
class RecordedJob:
    """A job as it was declared, in words: what `headrace job explain` draws."""

    name: str
    reads: tuple[str, ...]
    writes: str
    dead_letters: tuple[str, ...]
    mode: str
    output_mode: str
    guarantee: str
    steps: tuple[str, ...]


class Launched:
    """What a script has declared and started so far."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
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
        """The jobs started so far that write what is to be read."""
        with self._lock:
            return [running for running in self.started if running.job.sink.target() in reads]

    def wait(self) -> None:
        """Until all jobs have ended; raises the first failure."""
        for running in list(self.started):
            running.wait()

    def stop(self) -> None:
        for running in list(self.started):
            running.stop()


_by_itself = Launch()
_launched: Launched | None = None


def current() -> Launch:
    return _by_itself if _launched is None else _launched.launch


def launched() -> Launched | None:
    """Who keeps the list of jobs, if somebody does."""
    return _launched


@contextlib.contextmanager
def using(launch: Launch) -> Iterator[Launched]:
    """Everything inside, in any thread, runs as launched with these options."""
    global _launched
    before, _launched = _launched, Launched(launch)
    try:
        yield _launched
    finally:
        _launched = before
