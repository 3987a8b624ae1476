"""`kill -9` of a driver around the dead letters of a batch: each bad record is a letter, and is one once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from headrace.pipeline.faults import AFTER_COMMIT, AFTER_WRITE, BEFORE_LETTERS, BEFORE_WRITE, FAULT_VARIABLE
from headrace.testing.requirements import require_java
from tests.compatibility.topic_contents import read_to_end, write

ROWS_PER_BATCH = 5
BATCHES = 8
"""Two for each death, so that each happens in a batch which is not the first of its process, and some are left."""

RUN_S_MAX = 300.0
ROOT = Path(__file__).parents[2]


def run(topic: str, bootstrap: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.letters_job", topic, bootstrap, str(folder)],
        env={
            **os.environ,
            "HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": str(ROWS_PER_BATCH),
            "PYTHONPATH": str(ROOT),
            **environment,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_bad_record_is_one_letter_wherever_the_driver_dies(bootstrap: str, tmp_path: Path) -> None:
    require_java()
    topic = f"letters-{uuid.uuid4().hex[:8]}"
    numbers = range(ROWS_PER_BATCH * BATCHES)
    bad = [number for number in numbers if number % 3 == 0]
    values = [f"bad {number}" if number in bad else json.dumps({"n": number}) for number in numbers]
    write(bootstrap, topic, [{"value": value} for value in values])

    for fault in (f"{BEFORE_WRITE}:2", f"{BEFORE_LETTERS}:2", f"{AFTER_WRITE}:2", f"{AFTER_COMMIT}:1"):
        died = run(topic, bootstrap, tmp_path, **{FAULT_VARIABLE: fault})
        assert died.returncode == -signal.SIGKILL, f"{fault}: {died.stdout}{died.stderr}"
    done = run(topic, bootstrap, tmp_path)
    assert done.returncode == 0, done.stderr

    letters = read_to_end(bootstrap, f"{topic}.dead", isolation_level="read_committed")
    assert [letter.value().decode() for letter in letters] == [f"bad {number}" for number in bad]
    with closing(sqlite3.connect(tmp_path / "journal.db")) as journal:
        rows = [json.loads(row)["n"] for (row,) in journal.execute("SELECT row FROM rows")]
    assert sorted(rows) == [number for number in numbers if number not in bad]
