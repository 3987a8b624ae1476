"""Receives Spark's progress events and reports them: one listener per session, one thread per process."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.clock import SystemClock
from headrace.pipeline.folders.folder import FolderUnavailable
from headrace.pipeline.report import progress
from headrace.pipeline.report.registry import JobFolder, JobState, JobStatus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("headrace.pipeline")

FLUSH_INTERVAL_S = 0.5
"""The maximum age of the status file and the committed offsets of a job under load."""

REMOTE_WRITE_S = 5.0
"""The same for the status file, if the folder of the job is in another file system."""

EVENTS_S_MAX = 30.0
"""Events arrive within milliseconds; other jobs or programs may keep the listener busy."""

UNWATCHED_MAX = 100
"""Events of queries that are not watched yet. Events of foreign queries replace each other."""

OnProgress = Callable[[Mapping[str, Any]], None]


class ProgressListener:
    """Spark's listener interface, by py4j. It reads one text per event; pyspark's own reads every field."""

    def __init__(self) -> None:
        self._watchers: dict[str, OnProgress] = {}
        # A first batch may end before the query is watched.
        self._unwatched: deque[Mapping[str, Any]] = deque(maxlen=UNWATCHED_MAX)
        self._lock = threading.Lock()

    def watch(self, run_id: str, on_progress: OnProgress) -> None:
        with self._lock:
            self._watchers[run_id] = on_progress
            early = [batch for batch in self._unwatched if batch["runId"] == run_id]
        for batch in early:
            on_progress(batch)

    def unwatch(self, run_id: str) -> None:
        with self._lock:
            self._watchers.pop(run_id, None)

    def onQueryStarted(self, _event: Any) -> None: ...

    def onQueryIdle(self, _event: Any) -> None: ...

    def onQueryTerminated(self, _event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        batch = json.loads(event.progress().json())
        with self._lock:
            on_progress = self._watchers.get(batch["runId"])
            if on_progress is None:
                self._unwatched.append(batch)
        if on_progress is not None:
            on_progress(batch)

    class Java:
        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)


_listeners: weakref.WeakKeyDictionary[SparkSession, ProgressListener] = weakref.WeakKeyDictionary()
_listeners_lock = threading.Lock()


def listener_of(spark: SparkSession) -> ProgressListener:
    from pyspark.java_gateway import ensure_callback_server_started

    with _listeners_lock:
        listener = _listeners.get(spark)
        if listener is None:
            gateway = spark.sparkContext._gateway
            assert gateway is not None
            ensure_callback_server_started(gateway)
            listener = ProgressListener()
            streaming = gateway.jvm.org.apache.spark.sql.streaming
            spark._jsparkSession.streams().addListener(
                streaming.PythonStreamingQueryListenerWrapper(listener)
            )
            _listeners[spark] = listener
        return listener


def await_events(spark: SparkSession) -> None:
    """Wait until the listener has all events so far: a short query ends before its last event arrives."""
    with contextlib.suppress(Exception):  # Spark may have stopped, and its events are lost
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(int(EVENTS_S_MAX * 1000))


class ReportThread:
    """Runs tasks in order, and flushes a job shortly after its last report."""

    def __init__(self) -> None:
        self._tasks: queue.Queue[Callable[[], None]] = queue.Queue(progress.REPORTS_WAITING_MAX)
        self._unflushed: set[JobReport] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def submit(self, task: Callable[[], None]) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="headrace-reports", daemon=True)
                self._thread.start()
        try:
            self._tasks.put_nowait(task)
        except queue.Full:
            logger.warning("too many reports on jobs are waiting; one was dropped")

    def flush_later(self, report: JobReport) -> None:
        self._unflushed.add(report)

    def drain(self, timeout_s: float) -> None:
        """Wait until all tasks so far are done."""
        done = threading.Event()
        self.submit(done.set)
        done.wait(timeout_s)

    def _run(self) -> None:
        flushed_s = time.monotonic()
        while True:
            with contextlib.suppress(queue.Empty):
                self._perform(self._tasks.get(timeout=FLUSH_INTERVAL_S))
            # Also while there are tasks: the batches of a job may arrive faster than the interval.
            if time.monotonic() - flushed_s >= FLUSH_INTERVAL_S:
                self._flush()
                flushed_s = time.monotonic()

    def _flush(self) -> None:
        for report in list(self._unflushed):
            self._unflushed.discard(report)
            self._perform(report.flush)

    def _perform(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            logger.exception("a report on a job failed")


_thread = ReportThread()
_outlet_of = functools.cache(progress.Outlet)
"""By the address of the broker."""


class JobReport:
    """The status of one job: in memory, in its folder, published to the broker."""

    def __init__(self, folder: JobFolder, status: JobStatus) -> None:
        self._folder = folder
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._offsets: dict[tuple[str, int], int] = {}
        self._written_s = -math.inf
        self._is_closed = False
        self.status = status

    def change(self, state: JobState, **fields: Any) -> None:
        """Set another state: written immediately, published soon."""
        with self._lock:
            changed = msgspec.structs.replace(
                self.status, state=state, updated_ms=self._clock.now_ms(), **fields
            )
            self.status = changed
            self._write()
        _thread.submit(lambda: self._publish(changed, None))

    def batch(self, batch: Mapping[str, Any], **written: Any) -> None:
        """Takes Spark's progress of a batch, and what was `written` so far. Does not block."""
        with self._lock:
            measured = progress.measure(self.status, batch, now_ms=self._clock.now_ms())
            measured = msgspec.structs.replace(measured, **written)
            self.status = measured
            self._offsets.update(progress.processed(batch))
        _thread.submit(lambda: self._publish(measured, batch))
        _thread.flush_later(self)

    def flush(self) -> None:
        """Write the status file and commit the offsets of the group."""
        with self._lock:
            if self._is_write_due():
                self._write()
            elif not self._is_closed:
                _thread.flush_later(self)
            offsets, self._offsets = self._offsets, {}
        if offsets:
            _outlet_of(self.status.bootstrap).commit(self.status.name, offsets)

    def close(self) -> None:
        self._is_closed = True
        _thread.submit(self.flush)
        _thread.submit(lambda: _outlet_of(self.status.bootstrap).close())
        _thread.drain(progress.CLOSE_TIMEOUT_S)

    def _is_write_due(self) -> bool:
        """Each write to a folder of another file system is a request, which object stores charge for."""
        if self._folder.folder.path is not None:
            return True
        # The end of a job is written already, and the next process may write there.
        return not self._is_closed and self._clock.monotonic_s() - self._written_s >= REMOTE_WRITE_S

    def _write(self) -> None:
        self._written_s = self._clock.monotonic_s()
        try:
            self._folder.write(self.status)
        except (
            OSError,
            FolderUnavailable,
        ) as error:  # if the disk is full, the job fails too, and reports it
            logger.warning("the status of job %s was not written: %s", self.status.name, error)

    def _publish(self, status: JobStatus, batch: Mapping[str, Any] | None) -> None:
        _outlet_of(status.bootstrap).publish(progress.record_of(status, batch))
