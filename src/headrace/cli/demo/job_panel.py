"""The panel of the job that `headrace run` starts: Spark starts while everything else runs already."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.demo.clicks_by_url import JOB
from headrace.clock import Clock

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.cli.demo.processes import JobProcess
    from headrace.pipeline.report.registry import JobStatus


class JobPanel:
    """Rate, lag and watermark of the job; and, once, the time until its first rows were processed."""

    def __init__(self, job: JobProcess, data_dir: Path, clock: Clock, *, started_ms: int) -> None:
        from headrace.pipeline.report.registry import Registry

        self.rows: list[JobStatus] = []
        self._job = job
        self._registry = Registry(data_dir)
        self._clock = clock
        self._started_ms = started_ms
        self._broker_ready_ms = clock.now_ms()
        self._first = ""
        self._is_first_shown = False

    def sample(self) -> None:
        """Only the record of this run counts: that of an earlier run exists until the job is started."""
        found = [each for each in self._registry.list() if each.name == JOB]
        self.rows = [each for each in found if each.started_ms >= self._started_ms]
        if self.rows and self.rows[0].rows_in > 0 and not self._first:
            self._first = self._breakdown(self.rows[0].updated_ms)

    def render(self, rows_max: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from headrace.cli.job.screen import render_jobs

        if problem := self._not_running():
            return Text(problem)
        return Group(render_jobs(self.rows), Text(self._first, style="dim"))

    def summary(self) -> str:
        if problem := self._not_running():
            return f"jobs: {problem.splitlines()[-1]}"
        from headrace.cli.job.screen import summary_of

        words = f"{JOB} {summary_of(self.rows[0])}"
        if self._first and not self._is_first_shown:
            self._is_first_shown = True
            words += f"\n{self._first}"
        return words

    def _not_running(self) -> str:
        """Why there is no job to show; empty if there is one."""
        if self._job.missing:
            return self._job.missing
        if failure := self._job.failure():
            return f"the job ended:\n{failure}"
        if self.rows:
            return ""
        return f"Spark starts … {(self._clock.now_ms() - self._broker_ready_ms) / 1000:.0f} s"

    def _breakdown(self, done_ms: int) -> str:
        """`first event processed after 9.1 s: broker 0.4 s, Python …`"""
        steps = [(self._broker_ready_ms, "broker"), *self._job.milestones, (done_ms, "first batch")]
        parts, before_ms = [], self._started_ms
        for at_ms, name in steps:
            parts.append(f"{name} {max(at_ms - before_ms, 0) / 1000:.1f} s")
            before_ms = at_ms
        return f"first event processed after {(done_ms - self._started_ms) / 1000:.1f} s: {', '.join(parts)}"


def process_age_ms() -> int:
    """The age of this process, with the start of Python; 0 if the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    # The 22nd field of proc(5), the 20th after the name: clock ticks from the system's start to the process's.
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1000), 0)
