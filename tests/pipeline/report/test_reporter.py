"""Spark's progress events, and the thread that reports on jobs."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, cast

import pytest

from headrace.pipeline.report.reporter import (
    FLUSH_INTERVAL_S,
    UNWATCHED_MAX,
    JobReport,
    ProgressListener,
    ReportThread,
)

WAIT_S = 60.0


class Event:
    """An event of Spark's listener, which py4j passes as a Java object."""

    def __init__(self, run_id: str, batch_id: int) -> None:
        self._text = json.dumps({"runId": run_id, "batchId": batch_id})

    def progress(self) -> Event:
        return self

    def json(self) -> str:
        return self._text


class Batches(list[int]):
    """The batches of a watched query, in the order of their events."""

    def add(self, progress: Mapping[str, Any]) -> None:
        self.append(progress["batchId"])


@pytest.fixture
def listener() -> ProgressListener:
    return ProgressListener()


def test_watcher_gets_the_events_of_its_own_query_also_those_before_the_watch(
    listener: ProgressListener,
) -> None:
    batches = Batches()
    listener.onQueryProgress(Event("mine", 0))
    listener.onQueryProgress(Event("other", 7))
    listener.watch("mine", batches.add)
    listener.onQueryProgress(Event("mine", 1))
    listener.onQueryProgress(Event("other", 8))
    assert batches == [0, 1]


def test_watcher_gets_no_events_after_the_end_of_the_watch(listener: ProgressListener) -> None:
    batches = Batches()
    listener.watch("mine", batches.add)
    listener.unwatch("mine")
    listener.onQueryProgress(Event("mine", 0))
    listener.unwatch("mine")
    assert batches == []


def test_only_the_newest_events_of_unwatched_queries_are_kept(listener: ProgressListener) -> None:
    batches = Batches()
    for batch_id in range(UNWATCHED_MAX + 3):
        listener.onQueryProgress(Event("mine", batch_id))
    listener.watch("mine", batches.add)
    assert batches == list(range(3, UNWATCHED_MAX + 3))


class Flushed:
    def __init__(self) -> None:
        self.is_done = threading.Event()

    def flush(self) -> None:
        self.is_done.set()


def test_status_of_a_job_without_a_pause_between_batches_is_flushed() -> None:
    thread, report = ReportThread(), Flushed()
    thread.flush_later(cast("JobReport", report))
    pause = threading.Event()
    for _ in range(round(WAIT_S / (FLUSH_INTERVAL_S / 10))):
        thread.submit(lambda: None)
        if report.is_done.is_set():
            break
        pause.wait(FLUSH_INTERVAL_S / 10)
    assert report.is_done.is_set()


def test_report_that_fails_is_logged_and_the_next_one_is_performed(caplog: pytest.LogCaptureFixture) -> None:
    thread, is_done = ReportThread(), threading.Event()
    thread.submit(lambda: json.loads("no JSON"))
    thread.submit(is_done.set)
    thread.drain(WAIT_S)
    assert is_done.is_set()
    assert [record.getMessage() for record in caplog.records] == ["a report on a job failed"]
