from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.delta_fences import application, describe, kept_fence, newest_fences, read_fences

ROWS = pa.table({"id": ["a"]})


def commit(folder: Path, fences: dict[str, Fence], *written: Fence) -> DeltaTable:
    properties = CommitProperties(
        custom_metadata=describe(fences),
        app_transactions=[Transaction(application(each), each.batch_id) for each in written],
    )
    write_deltalake(folder, ROWS, mode="append", commit_properties=properties)
    return DeltaTable(folder)


def fence(job: str, batch_id: int) -> Fence:
    return Fence(job=job, checkpoint="first", batch_id=batch_id, ends=('{"clicks":{"0":10}}',))


def test_newest_fence_of_each_job_is_found_behind_commits_of_others(tmp_path: Path) -> None:
    one, two = fence("one", 3), fence("two", 0)
    commit(tmp_path, {"one": one}, one)
    commit(tmp_path, {"one": one, "two": two}, two)
    write_deltalake(tmp_path, ROWS, mode="append")
    table = DeltaTable(tmp_path)
    assert newest_fences(table) == [one, two]
    assert kept_fence(table, "three") is None


def test_fence_that_an_older_writer_carries_on_does_not_count(tmp_path: Path) -> None:
    commit(tmp_path, {"one": fence("one", 3)}, fence("one", 3))
    newer = fence("one", 4)
    commit(tmp_path, {"one": newer}, newer)
    table = commit(tmp_path, {"one": fence("one", 3), "two": fence("two", 0)}, fence("two", 0))
    assert newest_fences(table) == [newer, fence("two", 0)]


def test_table_without_fences_has_none(tmp_path: Path) -> None:
    write_deltalake(tmp_path, ROWS)
    assert newest_fences(DeltaTable(tmp_path)) == []


def test_description_of_another_program_is_an_error() -> None:
    with pytest.raises(BadJob, match="no list of fences"):
        read_fences("[1]")
