"""A hook for tests: the driver dies at a named point of a batch, as with a power cut.

    HEADRACE_TEST_FAULT="after-write:3"      the third time that a job is at this point
    HEADRACE_TEST_FAULT="after-write:3:7"    when seven jobs of the process have come so far; the first six wait there

Nothing happens without the variable. Python and its JVM are both killed, so that neither can tidy up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter

from headrace.errors import HeadraceError
from headrace.values import value

FAULT_VARIABLE = "HEADRACE_TEST_FAULT"

BEFORE_WRITE = "before-write"
BEFORE_LETTERS = "before-letters"
AFTER_LETTERS = "after-letters"
"""Of a sink that Spark writes by itself: its letters are written, and that is not noted yet."""
AFTER_WRITE = "after-write"
AFTER_COMMIT = "after-commit"
POINTS = (BEFORE_WRITE, BEFORE_LETTERS, AFTER_LETTERS, AFTER_WRITE, AFTER_COMMIT)

WAIT_S_MAX = 120.0
"""A job that never comes must not hold up the others forever; a test that waits this long has failed anyway."""


@value
class Fault:
    point: str
    count: int
    jobs: int = 1

    @classmethod
    def from_text(cls, text: str) -> Fault:
        try:
            point, *numbers = text.split(":")
            count, jobs = (int(number) for number in [*numbers, "1"][:2])
            if point not in POINTS:
                raise ValueError(point)
            return cls(point=point, count=count, jobs=jobs)
        except ValueError as error:
            raise HeadraceError(
                f"{FAULT_VARIABLE}={text!r} is not a fault",
                hint=f"POINT:COUNT or POINT:COUNT:JOBS, where the points are {', '.join(POINTS)}",
            ) from error


class FaultPoints:
    """Counts how often each job has come to a point, and ends the process when the fault says so."""

    def __init__(self, fault: Fault | None, *, wait_s_max: float = WAIT_S_MAX) -> None:
        self._fault = fault
        self._wait_s_max = wait_s_max
        self._times: Counter[str] = Counter()
        self._arrived: set[str] = set()
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    def reached(self, point: str, *, job: str) -> None:
        if self._fault is None or point != self._fault.point:
            return
        with self._lock:
            self._times[job] += 1
            if self._times[job] < self._fault.count:
                return
            self._arrived.add(job)
            if len(self._arrived) >= self._fault.jobs:
                die()
        # The thread that hears of commits serves all jobs: it must go on.
        if point != AFTER_COMMIT and not self._is_over.wait(self._wait_s_max):
            self._is_over.set()  # nobody else waits, here or at his next batch


def die() -> None:
    """SIGKILL for the JVM and for this process."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    jvm = getattr(gateway, "proc", None)
    if jvm is not None:
        os.kill(jvm.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def _from_environment() -> FaultPoints:
    text = os.environ.get(FAULT_VARIABLE)
    return FaultPoints(Fault.from_text(text) if text else None)


_points = _from_environment()


def reached(point: str, *, job: str) -> None:
    """Called by the batch step at each of its points."""
    _points.reached(point, job=job)
