"""How jobs are shown while they run: progress bars for those that end, a table for those that do not.

Without a terminal both become lines: one at the end, or one whenever something changed.
"""

from __future__ import annotations

import abc
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from headrace.cli.output import Shape, plain_text, result
from headrace.pipeline.report.registry import ENDS, JobState, JobStatus
from headrace.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

result("job list", shape=Shape.LIST)(JobStatus)
result("job status")(JobStatus)

LINES_EVERY_S = 10.0
"""How often all jobs are printed without a terminal."""


class JobsView(abc.ABC):
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @abc.abstractmethod
    def show(self, jobs: Sequence[JobStatus]) -> None:
        """Called repeatedly, the last time when all jobs have ended."""


def view_of(*, once: bool) -> JobsView:
    if once:
        return BarsView() if sys.stderr.isatty() else EndView()
    return TableView() if sys.stdout.isatty() else LinesView()


class BarsView(JobsView):
    """A bar for each job with its rows and its rate; the results stay below."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self._progress: Progress = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TextColumn("{task.fields[rows]}"),
            progress.TimeElapsedColumn(),
            console=Console(stderr=True),
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, jobs: Sequence[JobStatus]) -> None:
        for job in jobs:
            if job.name not in self._bars:
                self._bars[job.name] = self._progress.add_task(job.name, total=None, rows="")
            is_over = job.state in ENDS
            total = job.rows_in if is_over else _rows_there(job)
            # The bar of a job without rows is full.
            self._progress.update(
                self._bars[job.name],
                completed=max(job.rows_in, 1) if job.state is JobState.DONE else job.rows_in,
                total=max(total, 1) if total is not None else None,
                rows=_progress_words(job),
            )
            if is_over:
                self._progress.stop_task(self._bars[job.name])

    def is_complete(self, name: str) -> bool:
        return self._progress.tasks[self._bars[name]].finished


class EndView(JobsView):
    """Without a terminal: the result of each job, in the order in which the script starts them."""

    def __init__(self) -> None:
        self._told_count = 0

    def show(self, jobs: Sequence[JobStatus]) -> None:
        for job in jobs[self._told_count :]:
            if job.state not in ENDS:
                return
            self._told_count += 1
            print(f"job {job.name}: {_end_words(job)}", flush=True)


class TableView(JobsView):
    """All jobs, redrawn in place."""

    def __init__(self) -> None:
        from rich.live import Live

        self._live = Live(auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, jobs: Sequence[JobStatus]) -> None:
        self._live.update(render_jobs(jobs), refresh=True)


class LinesView(JobsView):
    """A line for every job whose state has changed, and for all of them every `LINES_EVERY_S`."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[JobState, int]] = {}
        self._told_s = time.monotonic()

    def show(self, jobs: Sequence[JobStatus]) -> None:
        is_time = time.monotonic() - self._told_s >= LINES_EVERY_S
        for job in jobs:
            state = (job.state, job.restarts)
            if is_time or self._states.get(job.name) != state:
                self._states[job.name] = state
                print(printable(f"job {job.name}: {summary_of(job)}"), flush=True)
        if is_time:
            self._told_s = time.monotonic()


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
        words += [f"batch {job.batch_id}", f"{job.rows_per_s:.0f} rows/s", f"lag {_or_dash(job.lag)}"]
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


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
