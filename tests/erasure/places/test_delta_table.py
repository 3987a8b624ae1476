"""A Delta table: rows, old files and the log with their statistics are gone; fences of jobs stay."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake

from headrace.erasure.errors import BadErasure
from headrace.erasure.places.delta_table import DeltaFolder
from headrace.erasure.subject import Subject

SECRET = "Ada Lovelace, Dorset Street"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    for first in (0, 5):
        rows = [(n, SECRET if n == 7 else f"person {n}") for n in range(first, first + 5)]
        write_deltalake(
            str(path),
            pyarrow.table({"id": [n for n, _ in rows], "name": [name for _, name in rows]}),
            mode="append",
            commit_properties=CommitProperties(custom_metadata={"headrace.fences": '{"a": "b"}'}),
        )
    return path


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


def test_row_old_files_and_log_are_gone(folder: Path) -> None:
    place, subject = DeltaFolder(folder, "id"), Subject(key="7")
    assert place.remaining(subject) == 1
    assert SECRET.encode() in bytes_on_disk(folder)
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert SECRET.encode() not in bytes_on_disk(folder)
    table = DeltaTable(str(folder))
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 2, 3, 4, 5, 6, 8, 9]


def test_row_that_was_deleted_before_is_found_in_the_old_file(folder: Path) -> None:
    DeltaTable(str(folder)).delete("id = 7")
    place, subject = DeltaFolder(folder, "id"), Subject(key="7")
    assert place.remaining(subject) == 1
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert SECRET.encode() not in bytes_on_disk(folder)


def test_fences_of_jobs_and_the_retention_of_the_log_stay(folder: Path) -> None:
    DeltaFolder(folder, "id").erase(Subject(key="7"))
    table = DeltaTable(str(folder))
    (newest,) = table.history(1)
    assert newest["headrace.fences"] == '{"a": "b"}'
    assert table.metadata().configuration["delta.logRetentionDuration"] == "interval 30 days"


def test_partition_column_is_searched(tmp_path: Path) -> None:
    rows = pyarrow.table({"city": ["Oslo", "Rome"], "n": [1, 2]})
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["city"])
    place = DeltaFolder(tmp_path / "t", "city")
    assert place.remaining(Subject(key="Oslo")) == 1
    place.erase(Subject(key="Oslo"))
    assert place.remaining(Subject(key="Oslo")) == 0
    assert DeltaTable(str(tmp_path / "t")).to_pyarrow_table()["city"].to_pylist() == ["Rome"]


def test_wrong_folder_and_wrong_column_are_errors(folder: Path) -> None:
    with pytest.raises(BadErasure, match="there is no Delta table"):
        DeltaFolder(folder / "other", "id").remaining(Subject(key="7"))
    with pytest.raises(BadErasure, match="no such column"):
        DeltaFolder(folder, "user").remaining(Subject(key="7"))
