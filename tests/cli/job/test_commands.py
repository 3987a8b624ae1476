"""The commands of `headrace job`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.pipeline.report.hot_keys import HotKey
from headrace.pipeline.report.registry import JobState, JobStatus, Registry
from headrace.testing.requirements import require_java
from tests.cli.conftest import COMMAND, Headrace, Ran
from tests.cli.job.conftest import SHOP, SPARK_TIMEOUT_S, write_script
from tests.cli.typed_json import json_problems


@pytest.fixture
def recorded(data_dir: Path) -> JobStatus:
    """The record of a job that was stopped after its seventh batch."""
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
        hot_keys=(
            HotKey(operator="tumbling", key="/home", rows=9_000, share=0.6123, ms=151.4),
            HotKey(operator="tumbling", key="\x1b[2J\n/cart", rows=900, share=0.06, ms=15),
        ),
    )
    folder = Registry(data_dir).folder(status.name)
    (folder.path / "checkpoint").mkdir(parents=True)
    ((folder.path / "checkpoint") / "metadata").write_text('{"id":"5f0c"}')
    folder.write(status)
    return status


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

    def test_folder_without_jobs_has_a_hint(self, headrace: Headrace, data_dir: Path) -> None:
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

    def test_status_shows_all_details(self, headrace: Headrace, data_dir: Path, recorded: JobStatus) -> None:
        ran = headrace("job", "status", "clicks-by-url", "--data-dir", str(data_dir))

        assert ran.lines[0] == "job clicks-by-url: stopped"
        assert "  rows       12,345 since the start, 206/s in the last batch" in ran.lines
        assert "  bad rows   2, 2 dead letters" in ran.lines
        skew = "half within 0.120 s, 95 % within 1.500 s, 99 % within 86,400.000 s of their event time"
        assert f"  skew       {skew}" in ran.lines
        assert "  hot key    /home of tumbling: 61.2% of the rows, 151 ms" in ran.lines
        assert "  hot key    \\x1b[2J\\n/cart of tumbling: 6.0% of the rows, 15 ms" in ran.lines

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

    def test_stop_of_a_job_that_does_not_run_is_no_error(
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

    def test_reset_knows_the_last_batch_of_a_job_whose_later_starts_failed(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        folder = Registry(data_dir).folder("clicks-by-url")
        ((folder.path / "checkpoint") / "commits").mkdir()
        ((folder.path / "checkpoint") / "commits" / "7").touch()
        folder.write(replace(recorded, state=JobState.FAILED, batch_id=None))

        ran = headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), code=1)

        assert "at batch 7" in ran.err

    def test_reset_with_yes_deletes_the_checkpoint_and_clears_the_target_only_on_request(
        self, headrace: Headrace, data_dir: Path, recorded: JobStatus
    ) -> None:
        folder = Registry(data_dir).folder("clicks-by-url")

        headrace("job", "reset", "clicks-by-url", "--data-dir", str(data_dir), "--yes")
        assert not (folder.path / "checkpoint").exists()
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
        assert (folder.path / "checkpoint").exists()

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


def test_without_spark_the_error_names_what_to_install(tmp_path: Path) -> None:
    done = without_module("pyspark", "job", "run", write_script(tmp_path, ""))

    assert done.returncode == 1
    assert "jobs run on Spark, which is not installed" in done.stderr
    assert "hint: pip install 'headrace[spark]'" in done.stderr


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
        path = write_script(tmp_path, SHOP.format(topic=topic))
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
