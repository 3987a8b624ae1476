"""The job of `headrace run`: Spark in a process of its own, which starts while everything else runs already."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Self

from headrace.cli.demo import clicks_by_url
from headrace.clock import Clock
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headrace.pipeline.report.registry import JobStatus

STOP_TIMEOUT_S = 20
"""A batch of this stream takes a second; one that takes longer is killed, and replayed by the next run."""

LOG_LINES_SHOWN = 5


class LiveJob:
    """`headrace job run` with a script of ours, from entering the context until leaving it.

    If Spark cannot run, there is no process, and `missing` names what to install.
    """

    def __init__(self, *, bootstrap: str, data_dir: Path) -> None:
        self.missing = _what_is_missing()
        self.milestones: list[tuple[int, str]] = []
        self._command = [sys.executable, "-m", "headrace", "job", "run", str(Path(clicks_by_url.__file__))]
        self._command += ["--bootstrap", bootstrap, "--data-dir", str(data_dir)]
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] = tempfile.TemporaryFile("w+", prefix="headrace-job-", suffix=".log")  # noqa: SIM115

    def __enter__(self) -> Self:
        if not self.missing:
            # A session of its own, so that Ctrl-C reaches the parent alone, which stops the job before the broker.
            self._process = subprocess.Popen(
                self._command, stdout=subprocess.PIPE, stderr=self._log, text=True, start_new_session=True
            )
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            # With its child processes: the JVM too.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._log.close()

    def failure(self) -> str:
        """Why it ended, if it ended; the other panels continue without it."""
        if self._process is None or self._process.poll() is None:
            return ""
        self._log.seek(0)
        return "\n".join(self._log.read().splitlines()[-LOG_LINES_SHOWN:]) or "it ended without a message"

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == clicks_by_url.MILESTONE:
                at_ms, _, what = rest.strip().partition(" ")
                self.milestones.append((int(at_ms), what))


def process_age_ms() -> int:
    """The age of this process, with the start of Python; 0 if the system does not report it."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    # The 22nd field of proc(5), the 20th after the name: clock ticks from the system's start to the process's.
    started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return max(int((time.clock_gettime(time.CLOCK_BOOTTIME) - started_s) * 1000), 0)


def _what_is_missing() -> str:
    if importlib.util.find_spec("pyspark") is None:
        return "the job needs Spark: pip install 'headrace[spark]'"
    from headrace.java import java_command

    try:
        java_command()
    except HeadraceError as error:
        return f"the job needs Java: {error.hint}"
    return ""


class JobsPanel:
    """Rate, lag and watermark of the job; and, once, the time until its first rows were processed."""

    def __init__(self, job: LiveJob, data_dir: Path, clock: Clock, *, began_ms: int) -> None:
        from headrace.pipeline.report.registry import Registry

        self._job = job
        self._registry = Registry(data_dir)
        self._clock = clock
        self._began_ms = began_ms
        self._broker_ready_ms = clock.now_ms()
        self._status: JobStatus | None = None
        self._first = ""
        self._is_first_shown = False

    @property
    def row_count(self) -> int:
        return 1

    def sample(self) -> None:
        """Only the record of this run counts: that of an earlier run exists until the job is started."""
        found = [each for each in self._registry.list() if each.name == clicks_by_url.JOB]
        self._status = found[0] if found and found[0].started_ms >= self._began_ms else None
        if self._status is not None and self._status.rows_in > 0 and not self._first:
            self._first = self._breakdown(self._status.updated_ms)

    def render(self, rows_max: int) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from headrace.cli.job.screen import render_jobs

        if self._status is None or self._job.failure():
            return Text(self._words())
        return Group(render_jobs([self._status]), Text(self._first, style="dim"))

    def summary(self) -> str:
        if self._status is None or self._job.failure():
            return f"jobs: {self._words().splitlines()[-1]}"
        from headrace.cli.job.screen import summary_of

        words = f"{self._status.name} {summary_of(self._status)}"
        if self._first and not self._is_first_shown:
            self._is_first_shown = True
            words += f"\n{self._first}"
        return words

    def _words(self) -> str:
        if self._job.missing:
            return self._job.missing
        if self._job.failure():
            return f"the job ended:\n{self._job.failure()}"
        return f"Spark starts … {(self._clock.now_ms() - self._broker_ready_ms) / 1000:.0f} s"

    def _breakdown(self, done_ms: int) -> str:
        """`first event processed after 9.1 s: broker 0.4 s, Python …`"""
        steps = [(self._broker_ready_ms, "broker"), *self._job.milestones, (done_ms, "first batch")]
        parts, before_ms = [], self._began_ms
        for at_ms, what in steps:
            parts.append(f"{what} {max(at_ms - before_ms, 0) / 1000:.1f} s")
            before_ms = at_ms
        return f"first event processed after {(done_ms - self._began_ms) / 1000:.1f} s: {', '.join(parts)}"
