"""Runs views in this process: one Spark session, a job for each view.

    building → running ⇄ waiting to restart → failed
                  └→ switching → running          while a rebuild of another process has the view

A view that fails does not stop the others. `tick` is called several times a second; the rows move in the jobs' threads.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.clock import SystemClock
from headrace.errors import HeadraceError
from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.report.registry import ENDS, JobState
from headrace.pipeline.run import failures
from headrace.views import switching
from headrace.views.catalog import ViewFolder, ViewState, ViewStatus
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.jobs import job_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.kafka.cluster import Cluster
    from headrace.pipeline import RunningJob

logger = logging.getLogger("headrace.views")

RETRY_AFTER_MS = 10_000
"""A store that is away may be back at any moment; a look costs a connection."""

STATUS_EVERY_MS = 1_000
"""How often a status file is written while nothing but counts changes."""


class ViewRun:
    """One view in this process, from taking its lock to releasing it."""

    def __init__(self, folder: ViewFolder, spark: SparkSession, cluster: Cluster, *, once: bool) -> None:
        self.name = folder.name
        self._folder = folder
        self._spark = spark
        self._cluster = cluster
        self._once = once
        self._clock = SystemClock()
        self._job: RunningJob | None = None
        self._is_served = False
        self._retry_ms = 0
        self.is_over = False
        self.failure: Exception | None = None
        self.status = ViewStatus(pid=os.getpid())

    def tick(self) -> None:
        """Do the next step, if there is one."""
        if self.is_over or self._clock.now_ms() < self._retry_ms:
            return
        try:
            self._step()
        except Exception as error:
            if self._once or not _may_pass(error):
                self._fail(error)
            else:
                self._wait(error)

    def _step(self) -> None:
        if self._folder.is_handover_wanted():
            self._let_go()
        elif self._job is None:
            self._begin()
        else:
            self._follow(self._job)

    def _begin(self) -> None:
        """Take the view, finish what a crash left, and start its job."""
        if not (self._folder.lock.is_held or self._folder.lock.take()):
            if self._folder.rebuild_lock.is_taken():
                self._set(ViewState.SWITCHING)
                return
            raise BadView(f"view {self.name} runs already", hint="one process runs a view at a time")
        switching.recover(self._folder, self._cluster)
        record = self._folder.record()
        store = self._folder.store()
        try:
            self._is_served = store.served() is not None
        finally:
            store.close()
        self._set(
            ViewState.RUNNING if self._is_served else ViewState.BUILDING, version=record.current, error=""
        )
        self._job = job_of(
            record.definition,
            record.current,
            spark=self._spark,
            cluster=self._cluster,
            data_dir=self._folder.data_dir,
            once=self._once or not self._is_served,
        ).start()

    def _follow(self, job: RunningJob) -> None:
        found = job.status()
        is_restarting = found.state is JobState.RESTARTING
        working = ViewState.RUNNING if self._is_served else ViewState.BUILDING
        self._set(
            ViewState.RESTARTING if is_restarting else working,
            rows_in=found.rows_in,
            rows_per_s=found.rows_per_s,
            lag=found.lag,
            dead_letters=found.dead_letters,
            error=found.error if is_restarting else "",
        )
        if found.state in ENDS:
            job.wait()  # raises its failure
            if found.state is JobState.DONE and not self._is_served:
                self._serve_first()
            else:
                self._end(ViewState.STOPPED)

    def _serve_first(self) -> None:
        """The first version has everything that there was when its job started: readers get the name."""
        assert self.status.version is not None
        store = self._folder.store()
        try:
            store.switch(self.status.version)
        finally:
            store.close()
        self._is_served = True
        self._job = None
        if self._once:
            self._end(ViewState.STOPPED)

    def _let_go(self) -> None:
        """A rebuild is about to switch: it needs the served version drained, and its lock."""
        if self._job is not None:
            self._job.stop()
            self._job = None
        self._set(ViewState.SWITCHING)
        self._folder.lock.release()

    def stop(self) -> None:
        """Drain the job and release the view."""
        if not self.is_over:
            if self._job is not None:
                self._job.stop()
            self._end(ViewState.STOPPED)

    def _wait(self, error: Exception) -> None:
        """The store is away, for longer than the job itself retries: the view waits for it."""
        self._job = None
        self._retry_ms = self._clock.now_ms() + RETRY_AFTER_MS
        self._set(ViewState.RESTARTING, error=failures.in_short(error))

    def _fail(self, error: Exception) -> None:
        self.failure = error
        logger.warning("view %s failed: %s", self.name, failures.in_short(error))
        text = str(error) if isinstance(error, HeadraceError) else failures.in_short(error)
        self._end(ViewState.FAILED, error=text)

    def _end(self, state: ViewState, error: str = "") -> None:
        self.is_over = True
        if self._folder.lock.is_held or state is not ViewState.FAILED:
            self._set(state, error=error)
        else:
            self.status = replace(self.status, state=state, error=error)  # the file is another process's
        self._folder.lock.release()

    def _set(self, state: ViewState, **fields: object) -> None:
        before, now_ms = self.status, self._clock.now_ms()
        is_new = state is not before.state
        self.status = replace(
            before,
            state=state,
            since_ms=now_ms if is_new else before.since_ms,
            updated_ms=before.updated_ms,
            **fields,
        )
        if is_new or now_ms - before.updated_ms >= STATUS_EVERY_MS:
            self.status = replace(self.status, updated_ms=now_ms)
            self._folder.write_status(self.status)


def _may_pass(error: Exception) -> bool:
    """Whether the store is away, as a view or its job found out."""
    return isinstance(error, ViewUnavailable) or isinstance(error.__cause__, SinkUnavailable)


def run_views(
    runs: Sequence[ViewRun],
    *,
    is_stopping: Callable[[], bool],
    show: Callable[[Sequence[ViewStatus]], None],
    pause: Callable[[], None],
) -> None:
    """Until all of them are over, or until a stop is wanted; then they are drained side by side."""
    while not is_stopping():
        for run in runs:
            run.tick()
        show([run.status for run in runs])
        if all(run.is_over for run in runs):
            return
        pause()
    threads = [threading.Thread(target=run.stop, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    show([run.status for run in runs])
