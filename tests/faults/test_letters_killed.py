"""`kill -9` of a driver around the dead letters of a batch: each bad record is a letter, and is one once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.faults import KILL_VARIABLE
from headrace.testing.requirements import require_java
from tests.compatibility.topic_contents import read_to_end, write
from tests.faults.letters_job import OUT_SUFFIX

ROWS_PER_BATCH = 5
BATCHES = 8
"""Two for each death, so that each happens in a batch which is not the first of its process, and some are left."""

RUN_S_MAX = 300.0
LOOK_S = 0.2
ROOT = Path(__file__).parents[2]

NUMBERS = range(ROWS_PER_BATCH * BATCHES)
BAD = [number for number in NUMBERS if number % 3 == 0]
GOOD = [number for number in NUMBERS if number not in BAD]


class Letters:
    """The job, run as often as a test likes, and what it has written."""

    def __init__(self, bootstrap: str, folder: Path, target: str) -> None:
        self.topic = f"letters-{uuid.uuid4().hex[:8]}"
        self._bootstrap = bootstrap
        self._folder = folder
        self._target = target
        values = [f"bad {number}" if number in BAD else json.dumps({"n": number}) for number in NUMBERS]
        write(bootstrap, self.topic, [{"value": value} for value in values])

    @contextlib.contextmanager
    def process(self, fault: str = "") -> Iterator[subprocess.Popen[bytes]]:
        """Whatever is left of it afterwards is killed, with its JVM."""
        arguments = [self.topic, self._bootstrap, str(self._folder), self._target]
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.letters_job", *arguments],
            env={
                **os.environ,
                "HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": str(ROWS_PER_BATCH),
                **({KILL_VARIABLE: fault} if fault else {}),
            },
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def run(self, fault: str = "") -> int:
        with self.process(fault) as process:
            return process.wait(RUN_S_MAX)

    def rows(self) -> list[int]:
        if self._target == "topic":
            return [json.loads(message.value())["n"] for message in self._read(self.topic + OUT_SUFFIX)]
        with closing(sqlite3.connect(self._folder / "journal.db")) as journal:
            return [json.loads(row)["n"] for (row,) in journal.execute("SELECT row FROM rows")]

    def letters(self) -> list[str]:
        return [letter.value().decode() for letter in self._read(f"dlq.{self.topic}")]

    def _read(self, topic: str) -> list[Any]:
        return read_to_end(self._bootstrap, topic, isolation_level="read_committed")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_bad_record_is_one_letter_wherever_the_driver_dies(bootstrap: str, tmp_path: Path) -> None:
    require_java()
    job = Letters(bootstrap, tmp_path, "journal")
    for fault in ("before-write:2", "before-letters:2", "after-write:2", "after-commit:1"):
        assert job.run(fault) == -signal.SIGKILL, f"it was not killed at {fault}"
    assert job.run() == 0
    assert job.letters() == [f"bad {number}" for number in BAD]
    assert sorted(job.rows()) == GOOD


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_letters_that_a_killed_driver_did_not_write_over_many_batches_are_written_once(
    bootstrap: str, tmp_path: Path
) -> None:
    require_java()
    job = Letters(bootstrap, tmp_path, "topic")
    # There is no second job: the letters wait, and Spark continues to the end of the topic.
    with job.process("before-letters:1:2") as process:
        deadline_s = time.monotonic() + RUN_S_MAX
        while len(job.rows()) < len(GOOD):
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline_s, "the rows are missing"
            time.sleep(LOOK_S)
    assert job.run("after-letters:1") == -signal.SIGKILL, "it was not killed after its letters"
    assert job.run() == 0
    assert job.letters() == [f"bad {number}" for number in BAD]
    assert set(job.rows()) == set(GOOD)
