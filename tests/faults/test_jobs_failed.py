"""A process whose jobs have failed ends, even if other parts of it are busy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.report.registry import JobState, Registry
from headrace.testing.requirements import require_java
from tests.compatibility.topic_contents import write

RUN_S_MAX = 400
"""A hang is a failure."""

SCRIPT = """
import threading
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Each, Topic
from headrace.pipeline.errors import SinkUnavailable

def fail(row, batch):
    raise SinkUnavailable("the server is away")

spark = session("given-up", master="local[2]", conf={{"spark.driver.memory": "512m"}})
rows = read_topic(spark, "{topic}", schema="n INT")
jobs = [
    Job("{topic}-fails", rows.select("n"), Each(fail)),
    Job("{topic}-copies", rows.select("n"), Topic("{topic}-copy", guarantee="at-least-once")),
    {more}
]
running = [job.start() for job in jobs]
{end}
"""


def ended(words: list[str], tmp_path: Path, bootstrap: str) -> tuple[int, str]:
    """The exit code of a process that ends by itself, and its output; with its JVM it is killed if it does not."""
    process = subprocess.Popen(
        words,
        env={
            **os.environ,
            "HEADRACE_BOOTSTRAP": bootstrap,
            "HEADRACE_PIPELINE_DATA_DIR": str(tmp_path / "data"),
            "HEADRACE_PIPELINE_RESTARTS_MAX": "1",
            "HEADRACE_PIPELINE_RESTART_BACKOFF_S": "0",
        },
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = process.communicate(timeout=RUN_S_MAX)
        return process.returncode, errors
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise


def script(tmp_path: Path, bootstrap: str, *, more: str = "", end: str = "") -> str:
    topic = f"given-up-{tmp_path.name}"
    write(bootstrap, topic, [{"value": '{"n": 1}'}])
    path = tmp_path / "jobs.py"
    path.write_text(SCRIPT.format(topic=topic, more=more.format(topic=topic), end=end))
    return str(path)


@pytest.mark.slow
@pytest.mark.timeout(500)
def test_script_ends_with_the_failure_of_a_job_while_others_are_in_the_midst_of_a_batch(
    bootstrap: str, tmp_path: Path
) -> None:
    require_java()
    never = 'Job("{topic}-hangs", rows.select("n"), Each(lambda row, batch: threading.Event().wait())),'
    path = script(tmp_path, bootstrap, more=never, end="running[0].wait()")
    code, errors = ended([sys.executable, path], tmp_path, bootstrap)
    assert code == 1, errors
    assert " failed: the server is away" in errors


@pytest.mark.timeout(500)
def test_command_ends_with_its_jobs_and_names_the_one_that_failed(bootstrap: str, tmp_path: Path) -> None:
    require_java()
    path = script(tmp_path, bootstrap)
    words = [sys.executable, "-m", "headrace", "job", "run", path, "--once"]
    code, errors = ended(words, tmp_path, bootstrap)
    assert code == 1, errors
    assert "-fails failed: the server is away" in errors
    states = {each.name.rpartition("-")[2]: each.state for each in Registry(tmp_path / "data").list()}
    assert states == {"fails": JobState.FAILED, "copies": JobState.DONE}
