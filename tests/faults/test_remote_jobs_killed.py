"""Jobs whose checkpoints are in HDFS or in S3: killed at every step of a batch, and managed from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from headrace.kafka.cluster import Cluster
from headrace.pipeline.folders.opened import open_folder
from headrace.testing.faults import KILL_VARIABLE
from headrace.testing.spark_cluster import SparkCluster
from tests.compatibility.topic_contents import read_committed, write
from tests.pipeline.journal_sink import rows_in

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]

RUN_S_MAX = 600.0
COUNT = 300
ROWS_PER_BATCH = 50
KILLS = ("before-write:2", "before-letters:3", "after-write:1", "after-commit:2")
"""The second and the third are in the batch with the late rows and the record that cannot be parsed."""

BAD_AT, LATE_AT = 155, 170
"""A row is late for Spark if it is behind the watermark of the batch before."""


def event(number: int) -> dict[str, Any]:
    minute, second = divmod(number, 60)
    return {"user": f"u{number % 3}", "at": f"2026-03-01T10:{minute:02}:{second:02}Z", "n": number}


EVENTS = [event(number) for number in range(COUNT)]
LATE = [event(1), event(2)]
"""They come after the watermark has passed their window."""
END = {"user": "end", "at": "2026-03-02T00:00:00Z", "n": 0}


def expected() -> list[tuple[str, str, int]]:
    sums: Counter[tuple[str, str]] = Counter()
    for each in EVENTS:
        sums[each["user"], each["at"][:16].replace("T", " ")] += each["n"]
    return sorted((user, minute, total) for (user, minute), total in sums.items())


class RemoteJob(Struct, frozen=True, kw_only=True):
    """A job of `remote_job`, its folder on this machine, and its checkpoint elsewhere."""

    bootstrap: str
    folder: Path
    topic: str
    checkpoint: str
    environment: Mapping[str, str]
    master: str = "local[2]"
    data_dir: str = ""

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.faults.remote_job", self.bootstrap, str(self.folder)]
        return self._done([*command, self.topic, self.checkpoint, self.master, self.data_dir], environment)

    def headrace(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "headrace", "job", *arguments]
        done = self._done([*command, "--data-dir", self.data_dir or str(self.folder / "data")], {})
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _done(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        limit = {"HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX": str(ROWS_PER_BATCH)}
        return subprocess.run(
            command,
            env={**os.environ, **limit, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )

    def finish(self) -> None:
        done = self.run()
        assert done.returncode == 0, done.stderr[-5_000:]

    def kill_at_every_point(self) -> None:
        for kill in KILLS:
            done = self.run(**{KILL_VARIABLE: kill})
            assert done.returncode == -signal.SIGKILL, f"it was not killed at {kill}: {done.stderr[-5_000:]}"

    def require_each_row_once(self) -> None:
        rows = rows_in(self.folder / "journal.db")
        found = [(row["user"], row["window_start"][:16], row["sum"]) for row in rows]
        assert sorted(found) == expected()
        late = [json.loads(each.value())["n"] for each in self._letters("late")]
        assert sorted(late) == [each["n"] for each in LATE]
        assert [each.value() for each in self._letters("dead")] == [b"no JSON"]

    def _letters(self, suffix: str) -> list[Any]:
        return read_committed(self.bootstrap, f"{self.topic}.{suffix}")


@pytest.fixture(params=["hdfs", "s3"])
def job(
    request: pytest.FixtureRequest, bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> RemoteJob:
    server = request.getfixturevalue(request.param)
    environment = {}
    if request.param == "s3":
        properties = str(server.write_properties(tmp_path / "spark.conf"))
        environment["HEADRACE_PIPELINE_SPARK_PROPERTIES"] = properties
        monkeypatch.setenv("HEADRACE_PIPELINE_SPARK_PROPERTIES", properties)
    topic = f"remote-{uuid.uuid4().hex[:8]}"
    Cluster(bootstrap, timeout_s=30).create_topic(topic, partitions=1)
    rows = [*EVENTS[:LATE_AT], *LATE, *EVENTS[LATE_AT:], END]
    write(bootstrap, topic, [{"value": json.dumps(row)} for row in rows[:BAD_AT]])
    write(bootstrap, topic, [{"value": b"no JSON"}])
    write(bootstrap, topic, [{"value": json.dumps(row)} for row in rows[BAD_AT:]])
    return RemoteJob(
        bootstrap=bootstrap,
        folder=tmp_path,
        topic=topic,
        checkpoint=f"{server.address}/jobs/{topic}",
        environment=environment,
    )


def test_driver_killed_between_every_two_steps_of_a_batch_changes_nothing(job: RemoteJob) -> None:
    job.kill_at_every_point()
    job.finish()
    job.require_each_row_once()
    assert not (job.folder / "data" / "jobs" / job.topic / "checkpoint").exists()


def test_job_is_shown_and_reset_and_starts_from_the_beginning(job: RemoteJob) -> None:
    job.finish()
    (status,) = [json.loads(job.headrace("status", job.topic, "--format", "json"))]
    assert status["checkpoint_folder"] == job.checkpoint
    (state,) = json.loads(job.headrace("state", job.topic, "--format", "json"))
    assert [row["user"] for row in state["rows"]] == ["end"]
    job.headrace("reset", job.topic, "--clear-target", "--yes")
    assert open_folder(job.checkpoint).names() == ["headrace-lock"]
    job.finish()
    found = [
        (row["user"], row["window_start"][:16], row["sum"]) for row in rows_in(job.folder / "journal.db")
    ]
    assert sorted(found) == expected()


def test_lost_checkpoint_of_a_job_with_state_is_an_error_with_its_remedy(job: RemoteJob) -> None:
    job.finish()
    open_folder(job.checkpoint).clear("metadata")
    done = job.run()
    assert done.returncode != 0
    assert "its checkpoint is missing" in done.stderr
    assert "--rebuild" in done.stderr


def test_second_process_is_told_which_process_runs_the_job(job: RemoteJob) -> None:
    lock = open_folder(job.checkpoint).lock("headrace-lock")
    assert lock.take()
    try:
        done = job.run()
    finally:
        lock.release()
    assert done.returncode != 0
    assert f"runs already, in process {os.getpid()} on " in done.stderr
    job.finish()
    job.require_each_row_once()


def test_driver_of_a_cluster_without_a_shared_folder_is_killed_and_nothing_changes(job: RemoteJob) -> None:
    with SparkCluster(workers=2, hidden=[job.folder]) as cluster:
        job = msgspec.structs.replace(job, master=cluster.master)
        job.kill_at_every_point()
        job.finish()
    job.require_each_row_once()


def test_job_whose_data_folder_is_at_an_address_is_killed_and_managed_there(job: RemoteJob) -> None:
    data_dir = job.checkpoint.replace("/jobs/", "/data/")
    job = msgspec.structs.replace(job, checkpoint="", data_dir=data_dir)
    done = job.run(**{KILL_VARIABLE: "after-write:2"})
    assert done.returncode == -signal.SIGKILL, done.stderr[-5_000:]
    assert [each["state"] for each in json.loads(job.headrace("list", "--format", "json"))] == ["killed"]
    job.finish()
    job.require_each_row_once()
    assert [each["state"] for each in json.loads(job.headrace("list", "--format", "json"))] == ["done"]
    job.headrace("reset", job.topic, "--yes")
    assert open_folder(f"{data_dir}/jobs/{job.topic}/checkpoint").names() == []
    assert not (job.folder / "data").exists()
