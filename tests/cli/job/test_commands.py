"""`headrace job`: scripts and their jobs, as a user meets them."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.pipeline.report.registry import JobState, JobStatus, Registry
from headrace.testing.requirements import require_java
from tests.cli.conftest import COMMAND, Headrace, Ran, started
from tests.cli.typed_json import json_problems

# A job's process starts Spark: ten seconds on a machine with nothing else to do, minutes on one with much.
SPARK_TIMEOUT_S = 600
LOOK_EVERY_S = 0.1


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def recorded(data_dir: Path) -> JobStatus:
    """The record that a job leaves behind which was stopped after its seventh batch."""
    status = JobStatus(
        name="clicks-by-url",
        state=JobState.STOPPED,
        pid=1,
        mode="micro-batch",
        sources=("topic clicks",),
        target="table clicks_by_url",
        guarantee="exactly-once",
        bootstrap="127.0.0.1:9092",
        checkpoint="5f0c",
        started_ms=1_763_200_000_000,
        updated_ms=1_763_200_060_000,
        batch_id=6,
        rows_in=12_345,
        rows_per_s=205.75,
        lag=17,
        watermark="2025-11-15T09:47:30.000Z",
        state_rows=8,
        state_bytes=4_096,
        bad_rows=2,
        dead_letters=2,
        batch_ms=812,
        skew_ms_p50=120,
        skew_ms_p95=1_500,
        skew_ms_p99=86_400_000,
    )
    folder = Registry(data_dir).folder(status.name)
    folder.checkpoint.mkdir(parents=True)
    (folder.checkpoint / "metadata").write_text('{"id":"5f0c"}')
    folder.write(status)
    return status


def script(folder: Path, text: str) -> str:
    path = folder / "shop.py"
    path.write_text(text)
    return str(path)


def without_module(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a Python that finds no such module."""
    program = (
        f"import sys; sys.modules[{module!r}] = None; sys.argv[0] = 'headrace'\n"
        "from headrace.cli.main import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


class TestRecords:
    """list, status, stop and reset read files, and need neither a broker nor Spark."""

    def test_folder_without_jobs_says_what_to_do(self, headrace: Headrace, data_dir: Path) -> None:
        ran = headrace("job", "list", "--data-dir", str(data_dir))

        assert "`headrace job run SCRIPT`" in ran.out

    def test_list_shows_every_job_with_rate_lag_and_watermark(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        ran = headrace("job", "list", "--data-dir", str(data_dir))

        words = " ".join(ran.out.split())
        assert (
            "clicks-by-url stopped 206 17 2025-11-15T09:47:30.000Z 0 topic clicks table clicks_by_url"
            in words
        )

    def test_json_has_the_whole_record(self, headrace: Headrace, data_dir: Path, recorded: JobStatus) -> None:
        listed = json.loads(headrace("job", "list", "--data-dir", str(data_dir), "--format", "json").out)
        one = json.loads(
            headrace("job", "status", "clicks-by-url", "--data-dir", str(data_dir), "--format", "json").out
        )

        assert listed == [one]
        assert JobStatus.from_json(json.dumps(one)) == recorded

    def test_status_says_what_there_is_to_know(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        ran = headrace("job", "status", "clicks-by-url", "--data-dir", str(data_dir))

        assert ran.lines[0] == "job clicks-by-url: stopped"
        assert "  rows       12,345 since the start, 206/s in the last batch" in ran.lines
        assert "  bad rows   2, 2 dead letters" in ran.lines
        skew = "half within 0.120 s, 95 % within 1.500 s, 99 % within 86,400.000 s of their event time"
        assert f"  skew       {skew}" in ran.lines

    def test_job_whose_process_died_is_shown_as_killed(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        folder = Registry(data_dir).folder("clicks-by-url")
        running = json.loads(recorded.to_json()) | {"state": "running"}
        folder.write(JobStatus.from_json(json.dumps(running)))

        assert (
            headrace("job", "status", "clicks-by-url", "--data-dir", str(data_dir))
            .lines[0]
            .endswith("killed")
        )

    def test_unknown_job_is_an_error_that_names_the_nearest(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        ran = headrace("job", "status", "clicks-by-ulr", "--data-dir", str(data_dir), code=1)

        assert "there is no job clicks-by-ulr" in ran.err
        assert "hint: known here: clicks-by-url" in ran.err

    def test_stop_of_a_job_that_does_not_run_says_so(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        ran = headrace("job", "stop", "clicks-by-url", "--data-dir", str(data_dir))

        assert ran.out == "job clicks-by-url is not running: it is stopped\n"

    def test_json_is_as_declared(self, headrace: Headrace, data_dir: Path, recorded: JobStatus) -> None:
        job, options = "clicks-by-url", ("--data-dir", str(data_dir), "--format", "json")

        assert json_problems("job list", headrace("job", "list", *options).out) == []
        assert json_problems("job status", headrace("job", "status", job, *options).out) == []
        assert json_problems("job stop", headrace("job", "stop", job, *options).out) == []
        assert json_problems("job reset", headrace("job", "reset", job, "--yes", *options).out) == []

    def test_reset_deletes_nothing_without_confirmation(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        ran = headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), code=1)

        assert "at batch 6 with 8 rows of state; table clicks_by_url keeps its rows" in ran.err
        assert "hint: add --yes" in ran.err
        assert (data_dir / "jobs/clicks-by-url/checkpoint/metadata").exists()

    def test_reset_with_yes_forgets_the_checkpoint_and_keeps_the_target_unless_told(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        folder = Registry(data_dir).folder("clicks-by-url")

        headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), "--yes")
        assert not folder.checkpoint.exists()
        assert not folder.deleted_checkpoints().clear_target

        headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), "--yes", "--clear-target")
        assert folder.deleted_checkpoints().clear_target

    def test_running_job_is_not_reset(self, headrace: Headrace, data_dir: Path, recorded: JobStatus) -> None:
        folder = Registry(data_dir).folder("clicks-by-url")
        folder.take()
        try:
            ran = headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), "--yes", code=1)
        finally:
            folder.release()

        assert "job clicks-by-url runs" in ran.err
        assert "hint: headrace job stop clicks-by-url" in ran.err
        assert folder.checkpoint.exists()

    def test_data_folder_comes_from_settings_too(
        self, environment: dict[str, str], tmp_path: Path, data_dir: Path, recorded: JobStatus
    ) -> None:
        (tmp_path / "headrace.toml").write_text(f'[pipeline]\ndata_dir = "{data_dir}"\n')
        command = [*COMMAND, "job", "list"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )

        assert "clicks-by-url" in done.stdout

    def test_no_spark_is_imported_for_them(self, data_dir: Path, recorded: JobStatus) -> None:
        done = without_module("pyspark", "job", "list", "--data-dir", str(data_dir))

        assert done.returncode == 0, done.stderr
        assert "clicks-by-url" in done.stdout


class TestBadScripts:
    """What is wrong with a script is said in its own terms, with exit code 1."""

    def test_script_that_is_not_there(self, headrace: Headrace, tmp_path: Path) -> None:
        ran = headrace("job", "run", str(tmp_path / "nowhere.py"), code=1)

        assert f"there is no file {tmp_path}/nowhere.py" in ran.err

    def test_script_without_a_job(self, headrace: Headrace, tmp_path: Path) -> None:
        path = script(tmp_path, "print('nothing to do')\n")
        ran = headrace("job", "run", path, code=1)

        assert f"{path} starts no job" in ran.err
        assert "hint: Job(" in ran.err

    def test_error_in_a_script_is_shown_from_the_script_on(self, headrace: Headrace, tmp_path: Path) -> None:
        path = script(tmp_path, "def broken():\n    return 1 / 0\n\nbroken()\n")
        ran = headrace("job", "run", path, code=1)

        assert "line 2, in broken" in ran.err
        assert "ZeroDivisionError" in ran.err
        assert "runpy" not in ran.err
        assert "job_run.py" not in ran.err

    def test_error_of_ours_in_a_script_names_its_line(self, headrace: Headrace, tmp_path: Path) -> None:
        text = "from headrace.errors import HeadraceError\nraise HeadraceError('no such thing', hint='try that')\n"
        path = script(tmp_path, text)
        ran = headrace("job", "run", path, code=1)

        assert f"headrace: {path}:2: no such thing\n  hint: try that\n" in ran.err
        assert "Traceback" not in ran.err

    def test_script_that_exits_by_itself(self, headrace: Headrace, tmp_path: Path) -> None:
        path = script(tmp_path, "raise SystemExit(3)\n")
        ran = headrace("job", "run", path, code=1)

        assert f"{path} ended with 3" in ran.err

    def test_script_may_import_its_neighbours(self, headrace: Headrace, tmp_path: Path) -> None:
        (tmp_path / "beside_it.py").write_text("NAME = 'neighbour'\n")
        path = script(tmp_path, "import beside_it, sys\nprint(beside_it.NAME, sys.argv)\n")
        ran = headrace("job", "run", path, code=1)

        assert ran.out == f"neighbour ['{path}']\n"

    def test_without_spark_it_says_what_to_install(self, tmp_path: Path) -> None:
        done = without_module("pyspark", "job", "run", script(tmp_path, ""))

        assert done.returncode == 1
        assert "jobs run on Spark, which is not installed" in done.stderr
        assert "hint: pip install 'headrace[spark]'" in done.stderr


SHOP = """
from pyspark.sql.functions import col
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table, Topic

spark = session("shop")
clicks = read_topic(spark, "{topic}", schema="user STRING, url STRING")
shop = clicks.where("url LIKE '/shop/%'")
Job("{topic}-filter", shop, Topic("{topic}-shop", key="user")).start()
Job("{topic}-count", shop.groupBy("url").count(), Table("clicks_by_url", key=["url"])).start()
"""


def click(producer: Producer, topic: str, *urls: str) -> None:
    for url in urls:
        producer.produce(topic, key="ada", value=json.dumps({"user": "ada", "url": url}), partition=0)
    assert producer.flush(60) == 0


def table(data_dir: Path) -> dict[str, int]:
    with sqlite3.connect(data_dir / "views.db") as database:
        return dict(database.execute("SELECT url, count FROM clicks_by_url"))


def spark_headrace(environment: Mapping[str, str], *arguments: str) -> Ran:
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        env=environment,
        check=False,
    )
    return Ran(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.mark.timeout(SPARK_TIMEOUT_S)
class TestOnSpark:
    def test_explain_draws_the_graph_and_starts_nothing(
        self, environment: dict[str, str], tmp_path: Path, topic: str
    ) -> None:
        require_java()
        flowchart = tmp_path / "shop.mmd"
        path = script(tmp_path, SHOP.format(topic=topic))
        options = ("--mermaid", str(flowchart), "--data-dir", str(tmp_path / "data"))
        ran = spark_headrace(environment, "job", "explain", path, *options)

        assert ran.code == 0, ran.err
        assert ran.lines[0] == f"topic {topic}"
        assert any(line.startswith(f"├─▶ job {topic}-filter: micro-batch") for line in ran.lines)
        assert any(line.endswith("─▶ table clicks_by_url") for line in ran.lines)
        drawn = flowchart.read_text().splitlines()
        assert drawn[0] == "flowchart LR"
        assert any(f'["{topic}-count<br/>job, micro-batch, ' in line for line in drawn)
        assert Registry(tmp_path / "data").list() == []

    def test_jobs_are_seen_from_outside_stopped_one_by_one_and_ended_by_sigterm(
        self,
        environment: dict[str, str],
        headrace: Headrace,
        producer: Producer,
        tmp_path: Path,
        data_dir: Path,
        topic: str,
    ) -> None:
        require_java()
        click(producer, topic, "/shop/a", "/help", "/shop/a", "/shop/b")
        path = script(tmp_path, SHOP.format(topic=topic))
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
                time.sleep(LOOK_EVERY_S)
            process.send_signal(signal.SIGTERM)
            _out, err = process.communicate(timeout=SPARK_TIMEOUT_S)

        assert process.returncode == 0, err
        assert {each.state for each in Registry(data_dir).list()} == {JobState.STOPPED}


def wait_for_rows(process: subprocess.Popen[str], data_dir: Path, topic: str, rows: int) -> None:
    """Until both jobs have seen so many rows, however long Spark takes to start; the test's time-out bounds it."""
    names = {f"{topic}-filter", f"{topic}-count"}
    while {each.name for each in Registry(data_dir).list() if each.rows_in >= rows} != names:
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        time.sleep(LOOK_EVERY_S)
