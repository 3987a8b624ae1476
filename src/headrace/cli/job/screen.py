"""How jobs are shown while they run: progress bars for those that end, a table for those that do not.

Without a terminal both become lines: one at the end, or one whenever something changed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from headrace.cli.output import Shape, plain_text, result
from headrace.pipeline.report.registry import ENDS, JobState, JobStatus
from headrace.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import TaskID

result("job list", shape=Shape.LIST)(JobStatus)
result("job status")(JobStatus)

LINES_EVERY_S = 10.0
"""How often all jobs are printed without a terminal."""


Show = Callable[[Sequence[JobStatus]], None]
"""Called repeatedly, the last time when all jobs have ended."""


def jobs_view(*, once: bool) -> AbstractContextManager[Show]:
    if once:
        return bars() if sys.stderr.isatty() else nullcontext(EndLines().show)
    return table() if sys.stdout.isatty() else nullcontext(StateLines().show)


@contextmanager
def bars() -> Iterator[Show]:
    """A bar for each job with its rows and its rate; the results stay below."""
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[rows]}"),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as drawn:
        ids: dict[str, TaskID] = {}

        def show(jobs: Sequence[JobStatus]) -> None:
            for job in jobs:
                if job.name not in ids:
                    ids[job.name] = drawn.add_task(job.name, total=None, rows="")
                completed, total = bar_of(job)
                drawn.update(ids[job.name], completed=completed, total=total, rows=_progress_words(job))
                if job.state in ENDS:
                    drawn.stop_task(ids[job.name])

        yield show


def bar_of(job: JobStatus) -> tuple[int, int | None]:
    """Completed, and the total if it is known. The bar of a job that is done is full, also without rows."""
    total = job.rows_in if job.state in ENDS else _rows_there(job)
    completed = max(job.rows_in, 1) if job.state is JobState.DONE else job.rows_in
    return completed, None if total is None else max(total, 1)


class EndLines:
    """The result of each job, in the order in which the script starts them."""

    def __init__(self) -> None:
        self._printed_count = 0

    def show(self, jobs: Sequence[JobStatus]) -> None:
        for job in jobs[self._printed_count :]:
            if job.state not in ENDS:
                return
            self._printed_count += 1
            print(f"job {job.name}: {_end_words(job)}", flush=True)


@contextmanager
def table() -> Iterator[Show]:
    """All jobs, redrawn in place."""
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        yield lambda jobs: live.update(render_jobs(jobs), refresh=True)


class StateLines:
    """A line for every job whose state has changed, and for all of them every `LINES_EVERY_S`."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[JobState, int]] = {}
        self._printed_s = time.monotonic()

    def show(self, jobs: Sequence[JobStatus]) -> None:
        is_time = time.monotonic() - self._printed_s >= LINES_EVERY_S
        for job in jobs:
            state = (job.state, job.restarts)
            if is_time or self._states.get(job.name) != state:
                self._states[job.name] = state
                print(printable(f"job {job.name}: {summary_of(job)}"), flush=True)
        if is_time:
            self._printed_s = time.monotonic()


def render_jobs(jobs: Sequence[JobStatus]) -> RenderableType:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for column in ("job", "state", "rows/s", "lag", "batch", "watermark", "writes"):
        is_number = column in ("rows/s", "lag", "batch")
        table.add_column(column, justify="right" if is_number else "left", min_width=8 if is_number else 0)
    for job in jobs:
        table.add_row(
            plain_text(job.name),
            job.state.value,
            f"{job.rows_per_s:,.0f}",
            "-" if job.lag is None else f"{job.lag:,}",
            "-" if job.batch_id is None else f"{job.batch_id:,}",
            plain_text(job.watermark or "-"),
            plain_text(job.target),
        )
    return table


def summary_of(job: JobStatus) -> str:
    """The state of a job, in a few words for a line of plain text."""
    words = [job.state.value]
    if job.batch_id is not None:
        lag = "-" if job.lag is None else job.lag
        words += [f"batch {job.batch_id}", f"{job.rows_per_s:.0f} rows/s", f"lag {lag}"]
    if job.watermark:
        words.append(f"watermark {job.watermark}")
    if job.restarts:
        words.append(f"{job.restarts} restarts")
    if job.error and job.state is not JobState.RUNNING:
        words.append(job.error.splitlines()[0])
    return ", ".join(words)


def _rows_there(job: JobStatus) -> int | None:
    return None if job.lag is None else job.rows_in + job.lag


def _progress_words(job: JobStatus) -> str:
    if job.batch_id is None:
        return job.state.value
    total = _rows_there(job)
    there = "" if total is None or job.state in ENDS else f" of {total:,}"
    return f"{job.rows_in:,}{there} rows, {job.rows_per_s:,.0f}/s"


def _end_words(job: JobStatus) -> str:
    took_s = max(job.updated_ms - job.started_ms, 1) / 1000
    words = f"{job.state.value}, {job.rows_in:,} rows in {took_s:.1f} s ({job.rows_in / took_s:,.0f}/s)"
    return f"{words}, {job.bad_rows:,} of them bad" if job.bad_rows else words
