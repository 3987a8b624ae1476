"""The thread that reports on jobs."""

from __future__ import annotations

import threading
from typing import cast

from headrace.pipeline.report.reporter import FLUSH_INTERVAL_S, JobReport, ReportThread

WAIT_S = 60.0


class Flushed:
    def __init__(self) -> None:
        self.is_done = threading.Event()

    def flush(self) -> None:
        self.is_done.set()


def test_a_job_whose_batches_never_pause_is_seen_all_the_same() -> None:
    thread, report = ReportThread(), Flushed()
    thread.flush_later(cast("JobReport", report))
    pause = threading.Event()
    for _ in range(round(WAIT_S / (FLUSH_INTERVAL_S / 10))):
        thread.submit(lambda: None)
        if report.is_done.is_set():
            break
        pause.wait(FLUSH_INTERVAL_S / 10)
    assert report.is_done.is_set()
