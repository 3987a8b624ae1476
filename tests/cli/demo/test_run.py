"""`headrace run`: a live stream on a broker of its own, and a job on it where there is Spark."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.requirements import require_java, require_redis
from tests.cli.conftest import COMMAND, next_line, started

ADDRESS = re.compile(r"broker at (127\.0\.0\.1:\d+);")
FIRST_EVENT = re.compile(r"first event processed after ([\d.]+) s: (.+)")
# Spark takes ten seconds to start, and minutes on a busy machine.
SPARK_TIMEOUT_S = 600
VIEWS = (
    re.compile(r"view orders_by_city running: \w+ \d+ orders"),
    re.compile(r"view product_cache running: green tea: \d+ in stock"),
    re.compile(r"view product_search running: 'tea': 4 hits"),
)
SAMPLE = re.compile(r"clicks (\d+) offsets .* \| .*click-counter lag (\d+)")


def test_ends_by_itself_and_its_stream_was_written(tmp_path: Path) -> None:
    command = [
        *COMMAND,
        "run",
        "--data-dir",
        str(tmp_path / "data"),
        "--seconds",
        "4",
        "--rate",
        "50",
        "--no-job",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "stopped"
    assert list((tmp_path / "data").glob("clicks-*/*.log"))


def test_interrupt_ends_it_cleanly_and_the_broker_too(tmp_path: Path) -> None:
    with started("run", "--no-job", "--data-dir", str(tmp_path / "data")) as process:
        found = ADDRESS.search(next_line(process))
        assert found is not None
        # Until records are written and a group that follows them is seen.
        while not ((sample := SAMPLE.search(next_line(process))) and int(sample[1]) > 0):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)

    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "stopped"
    check = [*COMMAND, "broker", "--check", "--bootstrap", found[1]]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 1


def test_broker_that_cannot_start_is_reported_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a folder should be")
    command = [*COMMAND, "run", "--data-dir", str(tmp_path / "data"), "--seconds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 1
    assert "the broker did not start" in done.stderr
    assert str(tmp_path / "data") in done.stderr


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_everything_else_is_shown_while_spark_starts_and_then_the_job_and_the_views_too(
    tmp_path: Path,
) -> None:
    require_java()
    require_redis()
    with started("run", "--data-dir", str(tmp_path / "data")) as process:
        next_line(process)
        first = next_line(process)
        assert "clicks" in first
        assert "Spark starts" in first
        seen = [first]
        while not (first_event := FIRST_EVENT.search(seen[-1])):
            assert process.poll() is None
            seen.append(next_line(process))
        while not all(view.search(seen[-1]) for view in VIEWS):
            assert process.poll() is None
            seen.append(next_line(process))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SPARK_TIMEOUT_S)

    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "stopped"
    assert any(re.search(r"clicks-by-url running, batch \d+, \d+ rows/s, lag \d+", each) for each in seen)
    parts = [float(each) for each in re.findall(r" ([\d.]+) s\b", first_event[2])]
    assert len(parts) == 5, first_event[0]
    assert sum(parts) == pytest.approx(float(first_event[1]), abs=0.5)
    with sqlite3.connect(tmp_path / "data" / "views.db") as views:
        assert views.execute("SELECT sum(clicks) FROM clicks_by_url").fetchone()[0] > 0


@pytest.mark.parametrize("is_missing", ["pyspark", "java"])
def test_where_the_job_cannot_run_the_rest_runs_with_a_hint_what_to_install(
    is_missing: str, tmp_path: Path
) -> None:
    hidden = "sys.modules['pyspark'] = None; " if is_missing == "pyspark" else ""
    program = f"import sys; {hidden}sys.argv[0] = 'headrace'; from headrace.cli.main import main; main()"
    command = [sys.executable, "-c", program, "run", "--data-dir", str(tmp_path / "data"), "--seconds", "3"]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    if is_missing == "java":
        environment["PATH"] = str(tmp_path)
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)

    assert done.returncode == 0, done.stderr
    hint = "pip install 'headrace[spark]'" if is_missing == "pyspark" else "the job needs Java: install"
    assert hint in done.stdout
    assert done.stdout.splitlines()[-1] == "stopped"
    assert list((tmp_path / "data").glob("clicks-*/*.log"))
