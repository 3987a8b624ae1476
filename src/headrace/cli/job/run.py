"""Running a script for `headrace job run` and `explain`, and watching its jobs until they end."""

from __future__ import annotations

import contextlib
import itertools
import logging
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from headrace.cli.job.screen import jobs_view
from headrace.cli.output import Shape, note, result
from headrace.errors import HeadraceError
from headrace.pipeline.errors import JobFailed
from headrace.pipeline.graph.job_graph import RecordedJob
from headrace.pipeline.report.registry import ENDS, JobState
from headrace.pipeline.run import failures
from headrace.pipeline.run.launched import launching

if TYPE_CHECKING:
    from headrace.pipeline.launch import Launch
    from headrace.pipeline.report.registry import JobStatus
    from headrace.pipeline.run.launched import LaunchedJobs

logger = logging.getLogger("headrace.cli")

result("job explain", shape=Shape.LIST)(RecordedJob)

POLL_EVERY_S = 0.25
EXIT_STOPPED = 130


def run_jobs(script: Path, launch: Launch) -> None:
    """Run the script, then watch its jobs until they end or are stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with launching(launch) as launched:
        try:
            _run_script(script)
            _require_jobs(script, launched.started)
            _watch(launched, once=launch.once)
        except KeyboardInterrupt:
            _stop(launched)
            if launch.once:
                note("stopped before everything was processed; the next run continues there")
                sys.exit(EXIT_STOPPED)
            note("stopped")
        except BaseException:
            _stop(launched)
            raise
        _raise_failures([each.status() for each in launched.started])


def record_jobs(script: Path, launch: Launch) -> list[RecordedJob]:
    """The jobs that the script would start."""
    with launching(launch) as launched:
        _run_script(script)
    _require_jobs(script, launched.recorded)
    return launched.recorded


def _run_script(script: Path) -> None:
    """As `python SCRIPT` would, with its own folder first on the path."""
    if not script.is_file():
        raise HeadraceError(
            f"there is no file {script}", hint="a script is a Python file that defines jobs and starts them"
        )
    try:
        with _as_main_program(script):
            runpy.run_path(str(script), run_name="__main__")
    except HeadraceError as error:
        error.message = f"{_place(script, error)}{error.message}"
        raise
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise HeadraceError(f"{script} ended with {ended.code}") from ended
    except Exception as error:
        shown = "".join(_lines_of_script(script, error))
        if failures.has_plan(error):
            logger.info("%s", shown)
            raise HeadraceError(f"{_place(script, error)}{failures.in_short(error)}") from error
        print(shown, end="", file=sys.stderr)
        raise HeadraceError(f"{script} failed before all of its jobs were started") from error


@contextlib.contextmanager
def _as_main_program(script: Path) -> Iterator[None]:
    arguments, path = sys.argv, list(sys.path)
    sys.argv = [str(script)]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = arguments, path


def _place(script: Path, error: Exception) -> str:
    """The line of the script that raised an error, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [each.lineno for each in frames if each.filename == str(script)]
    return f"{script}:{lines[-1]}: " if lines else ""


def _lines_of_script(script: Path, error: Exception) -> list[str]:
    """The traceback from the script on, without our own frames."""
    shown = traceback.TracebackException.from_exception(error)
    frames = itertools.dropwhile(lambda frame: frame.filename != str(script), shown.stack)
    shown.stack = traceback.StackSummary.from_list(list(frames))
    return list(shown.format())


def _require_jobs(script: Path, jobs: Sequence[object]) -> None:
    if not jobs:
        raise HeadraceError(f"{script} starts no job", hint='Job("name", rows, sink).start() starts one')


def _watch(launched: LaunchedJobs, *, once: bool) -> None:
    with jobs_view(once=once) as show:
        while True:
            statuses = [each.status() for each in launched.started]
            show(statuses)
            if all(each.state in ENDS for each in statuses):
                return
            time.sleep(POLL_EVERY_S)


def _stop(launched: LaunchedJobs) -> None:
    names = [each.name for each in launched.running()]
    if not names:
        return
    note(f"stopping {', '.join(names)} after the current batch; Ctrl-C again ends them now")
    signal.signal(signal.SIGINT, _leave_now)
    launched.stop()


def _leave_now(_number: int, _frame: FrameType | None) -> None:
    """The next run replays the batch; the fence prevents duplicates."""
    sys.exit(EXIT_STOPPED)


def _raise_failures(statuses: Sequence[JobStatus]) -> None:
    failed = [each for each in statuses if each.state is JobState.FAILED]
    if failed:
        raise JobFailed(
            "\n".join(f"job {each.name} failed: {each.error}" for each in failed),
            hint=f"`headrace job status {failed[0].name}` shows its last batch; Spark's own log is in the data folder",
        )
