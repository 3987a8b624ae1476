"""The files of jobs that other processes read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.pipeline.errors import BadJob
from headrace.pipeline.report.registry import DeletedCheckpoints, JobFolder, JobState, JobStatus, Registry


def status(name: str = "orders", state: JobState = JobState.RUNNING, checkpoint: str = "") -> JobStatus:
    return JobStatus(
        name=name,
        state=state,
        pid=1,
        mode="micro-batch",
        sources=("topic a",),
        checkpoint=checkpoint,
        rows_in=7,
    )


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


@pytest.fixture
def folder(registry: Registry) -> JobFolder:
    found = registry.folder("orders")
    found.path.mkdir(parents=True)
    return found


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "ä", "x" * 201])
def test_name_that_cannot_be_a_folder_or_a_group_is_rejected(registry: Registry, name: str) -> None:
    with pytest.raises(BadJob, match="name of a job"):
        registry.folder(name)


def test_status_is_read_as_it_was_written(registry: Registry, folder: JobFolder) -> None:
    folder.take()
    folder.write(status())
    assert registry.read("orders") == status()
    assert registry.list() == [status()]


def test_running_job_without_a_process_was_killed(registry: Registry, folder: JobFolder) -> None:
    folder.write(status(state=JobState.RUNNING))
    assert registry.read("orders").state is JobState.KILLED


@pytest.mark.parametrize("state", [JobState.STOPPED, JobState.DONE, JobState.FAILED])
def test_job_that_ended_was_not_killed(registry: Registry, folder: JobFolder, state: JobState) -> None:
    folder.write(status(state=state))
    assert registry.read("orders").state is state


def test_error_of_an_unknown_job_names_similar_jobs(registry: Registry, folder: JobFolder) -> None:
    folder.write(status())
    with pytest.raises(BadJob, match="known here: orders"):
        registry.read("order")


def test_second_process_cannot_run_a_job(folder: JobFolder) -> None:
    code = (
        "import sys, pathlib; from headrace.pipeline.report.registry import JobFolder; "
        "folder = JobFolder(pathlib.Path(sys.argv[1])); folder.take(); print('taken', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(folder.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"taken\n"
        with pytest.raises(BadJob, match="runs already"):
            folder.take()
        other.kill()
    folder.take()  # a lock does not outlive its process


def test_start_deletes_files_that_a_killed_process_left(folder: JobFolder) -> None:
    folder.write(status())
    (folder.path / ".job.json.4711").touch()
    folder.take()
    folder.release()
    assert sorted(path.name for path in folder.path.iterdir()) == ["job.json", "lock"]


def test_request_to_stop_is_for_the_process_that_runs_now(registry: Registry, folder: JobFolder) -> None:
    folder.write(status(state=JobState.STOPPED))
    registry.request_stop("orders")
    assert not folder.is_stop_requested()
    folder.take()
    registry.request_stop("orders")
    assert folder.is_stop_requested()
    folder.release()
    folder.take()
    assert not folder.is_stop_requested()


def test_reset_deletes_the_checkpoint_and_records_its_identity(registry: Registry, folder: JobFolder) -> None:
    ((folder.path / "checkpoint") / "offsets").mkdir(parents=True)
    (folder.path / "plan.json").write_text("{}")
    folder.write(replace(status(state=JobState.STOPPED, checkpoint="one"), batch_id=6, state_rows=8))
    registry.reset("orders")
    assert (registry.read("orders").batch_id, registry.read("orders").state_rows) == (None, 0)
    assert not (folder.path / "checkpoint").exists()
    assert not (folder.path / "plan.json").exists()
    assert folder.deleted_checkpoints() == DeletedCheckpoints(checkpoints=("one",))
    folder.write(status(state=JobState.STOPPED, checkpoint="two"))
    registry.reset("orders", clear_target=True)
    assert folder.deleted_checkpoints() == DeletedCheckpoints(checkpoints=("one", "two"), clear_target=True)


def test_reset_deletes_a_checkpoint_outside_of_the_data_folder(
    registry: Registry, folder: JobFolder, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "metadata").write_text('{"id": "three"}')
    folder.write(replace(status(state=JobState.KILLED), checkpoint_folder=str(elsewhere)))
    registry.reset("orders")
    assert not elsewhere.exists()
    assert folder.deleted_checkpoints() == DeletedCheckpoints(checkpoints=("three",))


def test_running_job_cannot_be_reset(registry: Registry, folder: JobFolder) -> None:
    folder.write(status(checkpoint="one"))
    folder.take()
    other = Registry(folder.path.parent.parent)
    with pytest.raises(BadJob, match="stop orders first"):
        other.reset("orders")
    assert folder.deleted_checkpoints() == DeletedCheckpoints()
