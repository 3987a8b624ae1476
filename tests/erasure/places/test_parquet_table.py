"""A table of Parquet files: rows are gone from all snapshots; other rows, untouched files and fences stay."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.places import parquet_table
from headrace.erasure.places.parquet_table import ParquetTable
from headrace.erasure.subject import Subject
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import parquet_snapshot
from headrace.pipeline.sinks.parquet import Parquet
from headrace.pipeline.sinks.parquet_layout import data_files, newest_snapshot, open_dataset, snapshots_folder
from headrace.pipeline.sinks.parquet_snapshot import taking_turns
from headrace.pipeline.sinks.sink import RejectedRow

SECRET = "Ada Lovelace, Dorset Street"
ARROW = pyarrow.schema(
    [
        ("id", pyarrow.int64()),
        ("name", pyarrow.string()),
        ("city", pyarrow.string()),
        ("tags", pyarrow.list_(pyarrow.string())),
        ("op", pyarrow.string()),
        ("_offset", pyarrow.int64()),
    ]
)
SCHEMA = from_arrow_schema(ARROW)

Row = tuple[int, str, str, str]


def _fail(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(rows)


def apply(sink: Parquet, number: int, *rows: Row) -> int:
    """One batch, as a job writes it."""
    table = pyarrow.Table.from_pylist(
        [{"id": id, "name": name, "city": city, "op": op, "_offset": number} for id, name, city, op in rows],
        schema=ARROW,
    )
    writer = sink.open("job", SCHEMA)
    written = writer.apply(
        table.to_batches(), Fence(job="job", checkpoint="c", batch_id=number, ends=("{}",)), _fail
    )
    writer.close()
    return written


@pytest.fixture
def sink(tmp_path: Path) -> Parquet:
    sink = Parquet("users", key="id", partition_by="city", at=tmp_path / "users")
    apply(sink, 0, (7, SECRET, "Oslo", "c"), (8, "grace", "Oslo", "c"), (9, "alan", "Rome", "c"))
    return sink


def rows(sink: Parquet) -> list[tuple[object, ...]]:
    newest = newest_snapshot(sink.path)
    assert newest is not None
    found = open_dataset(newest).to_table(columns=["id", "name", "city"]).to_pylist()
    return sorted(tuple(each.values()) for each in found)


def files_with_the_secret(sink: Parquet) -> list[Path]:
    return [
        each
        for each in snapshots_folder(sink.path).rglob("*")
        if each.is_file() and SECRET.encode() in each.read_bytes()
    ]


def test_row_is_gone_from_all_files_and_others_stay_as_they_are(sink: Parquet) -> None:
    (rome,) = (each for each in data_files(sink.path) if each.parent.name == "city=Rome")
    inode = rome.stat().st_ino
    place, subject = ParquetTable(sink.path, "id"), Subject(key='{"id": 7}')
    assert place.remaining(subject) == 1
    assert files_with_the_secret(sink), "the test shows nothing"
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert files_with_the_secret(sink) == []
    assert rows(sink) == [(8, "grace", "Oslo"), (9, "alan", "Rome")]
    (rome,) = (each for each in data_files(sink.path) if each.parent.name == "city=Rome")
    assert rome.stat().st_ino == inode


def test_row_that_was_deleted_before_is_found_in_older_snapshots(sink: Parquet) -> None:
    apply(sink, 1, (9, "turing", "Rome", "u"))  # a second snapshot that shares the file of the person
    apply(sink, 2, (7, "", "Oslo", "d"))
    place, subject = ParquetTable(sink.path, "id"), Subject(key="7")
    assert place.remaining(subject) == 1
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert files_with_the_secret(sink) == []
    assert rows(sink) == [(8, "grace", "Oslo"), (9, "turing", "Rome")]


def test_what_a_killed_writer_left_is_searched_and_deleted(sink: Parquet) -> None:
    newest = newest_snapshot(sink.path)
    assert newest is not None
    (oslo,) = (each for each in data_files(newest) if each.parent.name == "city=Oslo")
    left = snapshots_folder(sink.path) / ".building" / "city=Oslo"
    left.mkdir(parents=True)
    (left / "whole.parquet").write_bytes(oslo.read_bytes())
    (left / "torn.parquet").write_bytes(oslo.read_bytes()[:-20])
    place, subject = ParquetTable(sink.path, "name"), Subject(key=SECRET)
    assert place.remaining(subject) == 2
    place.erase(subject)
    assert place.remaining(subject) == 0
    assert files_with_the_secret(sink) == []


def test_column_of_a_partition_is_searched_and_its_folder_is_gone(sink: Parquet) -> None:
    place = ParquetTable(sink.path, "city")
    assert place.remaining(Subject(key="Oslo")) == 2
    place.erase(Subject(key="Oslo"))
    assert place.remaining(Subject(key="Oslo")) == 0
    assert rows(sink) == [(9, "alan", "Rome")]
    assert list(snapshots_folder(sink.path).rglob("city=Oslo")) == []


def test_job_continues_after_its_fence(sink: Parquet) -> None:
    ParquetTable(sink.path, "id").erase(Subject(key="7"))
    assert apply(sink, 0, (7, SECRET, "Oslo", "c")) == 0, "a batch that the fence covers"
    assert apply(sink, 1, (8, "hopper", "Oslo", "u")) == 1
    assert rows(sink) == [(8, "hopper", "Oslo"), (9, "alan", "Rome")]


def test_erasing_twice_is_harmless(sink: Parquet) -> None:
    place = ParquetTable(sink.path, "id")
    place.erase(Subject(key="7"))
    place.erase(Subject(key="7"))
    assert place.remaining(Subject(key="8")) == 1


def test_table_that_a_job_is_writing_can_be_continued(sink: Parquet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_snapshot, "LOCK_TIMEOUT_S", 0.1)
    place = ParquetTable(sink.path, "id")
    with (
        taking_turns(sink.path),
        pytest.raises(ErasureInterrupted, match="another process has been writing"),
    ):
        place.erase(Subject(key="7"))
    place.erase(Subject(key="7"))
    assert place.remaining(Subject(key="7")) == 0


def test_row_is_found_while_a_job_replaces_the_files_that_are_read(
    sink: Parquet, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = 0

    def moved(folder: Path) -> list[Path]:
        """The snapshot is replaced, and deleted, when its files are listed for the first time."""
        nonlocal times
        times += folder.name.isdecimal()
        found = data_files(folder)
        if times == 1:
            apply(replace(sink, keep_s=0), 1, (8, "hopper", "Oslo", "u"))
        return found

    monkeypatch.setattr(parquet_table, "data_files", moved)
    assert ParquetTable(sink.path, "id").remaining(Subject(key="7")) == 1


def test_table_that_changes_all_the_time_can_be_continued(
    sink: Parquet, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count(1)

    def moved(folder: Path) -> list[Path]:
        apply(sink, next(numbers), (8, "hopper", "Oslo", "u"))
        return data_files(folder)

    monkeypatch.setattr(parquet_table, "data_files", moved)
    monkeypatch.setattr(parquet_table, "READ_TRIES_MAX", 2)
    with pytest.raises(ErasureInterrupted, match="faster than it can be read"):
        ParquetTable(sink.path, "id").remaining(Subject(key="7"))


def test_wrong_path_and_wrong_column_are_errors(sink: Parquet, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path, problem in (("missing", "there is no Parquet table"), ("folder", "not created by Headrace")):
        with pytest.raises(BadErasure, match=problem):
            ParquetTable(tmp_path / path, "id").remaining(Subject(key="7"))
        with pytest.raises(BadErasure, match=problem):
            ParquetTable(tmp_path / path, "id").erase(Subject(key="7"))
    with pytest.raises(BadErasure, match="no such column"):
        ParquetTable(sink.path, "user").remaining(Subject(key="7"))
    with pytest.raises(BadErasure, match="can't name a person"):
        ParquetTable(sink.path, "tags").remaining(Subject(key="7"))
