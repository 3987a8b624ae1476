"""Jobs that fail at a chosen point of a batch: aborted within the process, or killed as by a power failure."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline import points
from headrace.pipeline.errors import BadJob
from headrace.pipeline.points import Point

KILL_VARIABLE = "HEADRACE_TEST_KILL"

WAIT_S_MAX = 120.0
"""How long the first of several jobs waits at the point for the last one."""

AbortPoint = Literal["before-write", "before-letters", "after-write"]


class JobAborted(BadJob):
    """A job was aborted by `abort_at`."""


@contextmanager
def abort_at(point: AbortPoint, *, job: str | None = None, time: int = 1) -> Iterator[None]:
    """Fail a job once, the `time`-th time that it reaches the point. It does not restart.

        with abort_at("after-write"):
            with pytest.raises(JobFailed):
                job.start().wait()
        job.start().wait()  # the batch runs again, and the sink has its rows once

    before-write     the batch was computed and nothing is written
    before-letters   the sink has committed the rows; dead letters and late rows are not written
    after-write      everything is written, and Spark has not committed the batch
    """
    count = 0

    def hook(reached: Point, name: str) -> None:
        nonlocal count
        if reached == point and job in (None, name):
            count += 1
            if count == time:
                raise JobAborted(f"job {name}: aborted at {point} by the test", hint="start the job again")

    points.hooks.append(hook)
    try:
        yield
    finally:
        points.hooks.remove(hook)


class Kill(Struct, frozen=True, kw_only=True):
    """`after-write:3` is the third time that a job reaches the point; `after-write:3:7` waits for seven jobs there."""

    point: Point
    time: int
    jobs: int = 1

    @classmethod
    def from_text(cls, text: str) -> Kill:
        try:
            point, *numbers = text.split(":")
            time, jobs = (int(number) for number in [*numbers, "1"][:2])
            if point not in get_args(Point):
                raise ValueError(point)
            return cls(point=point, time=time, jobs=jobs)  # type: ignore[arg-type]  # checked above
        except ValueError as error:
            raise HeadraceError(
                f"{KILL_VARIABLE}={text!r} is invalid",
                hint=f"POINT:TIME or POINT:TIME:JOBS, where POINT is one of {', '.join(get_args(Point))}",
            ) from error


class Killer:
    """Counts how often each job reaches the point, and kills the process when the last job reaches it."""

    def __init__(self, kill: Kill, *, wait_s_max: float = WAIT_S_MAX) -> None:
        self._kill = kill
        self._wait_s_max = wait_s_max
        self._times: Counter[str] = Counter()
        self._arrived: set[str] = set()
        self._lock = threading.Lock()
        self._gave_up = threading.Event()

    def reached(self, point: Point, job: str) -> None:
        if point != self._kill.point:
            return
        with self._lock:
            self._times[job] += 1
            if self._times[job] < self._kill.time:
                return
            self._arrived.add(job)
            if len(self._arrived) >= self._kill.jobs:
                kill_process()
        # One thread reports the commits of all jobs: it must not wait.
        if point != "after-commit" and not self._gave_up.wait(self._wait_s_max):
            self._gave_up.set()


def kill_as_environment_says() -> None:
    """Called by a script that a test runs with `HEADRACE_TEST_KILL=POINT:TIME[:JOBS]`."""
    if text := os.environ.get(KILL_VARIABLE):
        points.hooks.append(Killer(Kill.from_text(text)).reached)


def kill_process() -> None:
    """SIGKILL to the JVM and to this process, so that neither can clean up."""
    from pyspark import SparkContext

    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        os.kill(jvm.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
