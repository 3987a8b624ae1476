"""Running a script: as Python would, with errors in its own terms; and its jobs until they end."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace.cli.job.run import _run_script, record_jobs
from headrace.errors import HeadraceError
from headrace.pipeline.launch import Launch
from headrace.pipeline.report.registry import JobState, Registry
from headrace.testing.requirements import require_java
from tests.cli.conftest import Headrace, started
from tests.cli.job.conftest import SHOP, SPARK_TIMEOUT_S, write_script

POLL_EVERY_S = 0.1


def run(folder: Path, text: str) -> str:
    path = write_script(folder, text)
    _run_script(Path(path))
    return path


def test_missing_script_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match=f"there is no file {tmp_path}/nowhere.py"):
        _run_script(tmp_path / "nowhere.py")


def test_script_without_a_job_is_an_error(tmp_path: Path) -> None:
    path = write_script(tmp_path, "print('nothing to do')\n")

    with pytest.raises(HeadraceError, match=rf"{path} starts no job .Job\("):
        record_jobs(Path(path), Launch(explain=True))


def test_error_in_a_script_is_shown_from_the_script_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(HeadraceError, match=r"shop.py failed before all of its jobs were started"):
        run(tmp_path, "def broken():\n    return 1 / 0\n\nbroken()\n")

    shown = capsys.readouterr().err
    assert "line 2, in broken" in shown
    assert "ZeroDivisionError" in shown
    assert "runpy" not in shown
    assert "job/run.py" not in shown


def test_missing_column_is_one_line_with_the_nearest_names_and_without_the_plan(
    tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "from pyspark.sql import SparkSession\n"
        "SparkSession.getActiveSession().sql(\"SELECT 'x' AS url\").where(\"ulr LIKE '%'\")\n"
    )

    with pytest.raises(HeadraceError) as failed:
        run(tmp_path, text)

    assert str(failed.value).endswith("shop.py:2: there is no column ulr; the nearest are url")
    assert capsys.readouterr().err == ""


def test_error_of_headrace_in_a_script_has_the_line_of_the_script(tmp_path: Path) -> None:
    text = (
        "from headrace.errors import HeadraceError\nraise HeadraceError('no such thing', hint='try that')\n"
    )

    with pytest.raises(HeadraceError, match=r"shop.py:2: no such thing \(try that\)"):
        run(tmp_path, text)


def test_exit_code_of_a_script_is_an_error_unless_it_is_0(tmp_path: Path) -> None:
    run(tmp_path, "raise SystemExit\n")
    run(tmp_path, "raise SystemExit(0)\n")
    with pytest.raises(HeadraceError, match=r"shop.py ended with 3"):
        run(tmp_path, "raise SystemExit(3)\n")


def test_script_runs_as_the_main_program_beside_its_neighbours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (sys.argv, list(sys.path))
    (tmp_path / "beside_it.py").write_text("NAME = 'neighbour'\n")
    path = run(tmp_path, "import beside_it, sys\nprint(__name__, beside_it.NAME, sys.argv)\n")

    assert capsys.readouterr().out == f"__main__ neighbour ['{path}']\n"
    assert (sys.argv, sys.path) == before


def click(producer: Producer, topic: str, *urls: str) -> None:
    for url in urls:
        producer.produce(topic, key="ada", value=json.dumps({"user": "ada", "url": url}), partition=0)
    assert producer.flush(60) == 0


def table(data_dir: Path) -> dict[str, int]:
    with sqlite3.connect(data_dir / "views.db") as database:
        return dict(database.execute("SELECT url, count FROM clicks_by_url"))


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_jobs_are_seen_from_outside_stopped_one_by_one_and_ended_by_sigterm(
    environment: dict[str, str],
    headrace: Headrace,
    producer: Producer,
    tmp_path: Path,
    data_dir: Path,
    topic: str,
) -> None:
    require_java()
    click(producer, topic, "/shop/a", "/help", "/shop/a", "/shop/b")
    path = write_script(tmp_path, SHOP.format(topic=topic))
    folder = ("--data-dir", str(data_dir))
    with started("job", "run", path, *folder, environment=environment) as process:
        wait_for_rows(process, data_dir, topic, 4)
        assert table(data_dir) == {"/shop/a": 2, "/shop/b": 1}

        assert "running" in headrace("job", "status", f"{topic}-filter", *folder).lines[0]
        headrace("job", "stop", f"{topic}-filter", *folder)
        states = {each.name: each.state for each in Registry(data_dir).list()}
        assert states == {f"{topic}-filter": JobState.STOPPED, f"{topic}-count": JobState.RUNNING}

        click(producer, topic, "/shop/b")
        while table(data_dir)["/shop/b"] != 2:
            assert process.poll() is None
            time.sleep(POLL_EVERY_S)
        process.send_signal(signal.SIGTERM)
        _out, err = process.communicate(timeout=SPARK_TIMEOUT_S)

    assert process.returncode == 0, err
    assert {each.state for each in Registry(data_dir).list()} == {JobState.STOPPED}


@pytest.mark.timeout(SPARK_TIMEOUT_S)
def test_script_that_waits_for_its_jobs_runs_with_plain_python_until_it_is_stopped(
    environment: dict[str, str], producer: Producer, tmp_path: Path, data_dir: Path, topic: str
) -> None:
    require_java()
    click(producer, topic, "/shop/a")
    text = f"{SHOP.format(topic=topic)}\nfrom headrace.pipeline import wait_for_jobs\nwait_for_jobs()\n"
    with subprocess.Popen(
        [sys.executable, write_script(tmp_path, text)],
        env={**environment, "HEADRACE_PIPELINE_DATA_DIR": str(data_dir)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_for_rows(process, data_dir, topic, 1)
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=SPARK_TIMEOUT_S)

    assert (process.returncode, "before its jobs" in err) == (0, False), err
    assert table(data_dir) == {"/shop/a": 1}
    assert {each.state for each in Registry(data_dir).list()} == {JobState.STOPPED}


def wait_for_rows(process: subprocess.Popen[str], data_dir: Path, topic: str, rows: int) -> None:
    """Until both jobs have seen so many rows, however long Spark takes to start; the test's time-out bounds it."""
    names = {f"{topic}-filter", f"{topic}-count"}
    while {each.name for each in Registry(data_dir).list() if each.rows_in >= rows} != names:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(POLL_EVERY_S)
