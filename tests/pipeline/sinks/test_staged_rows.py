"""Rows between Spark's tasks and its commit: all of them arrive, in order, and no file stays."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow
import pytest

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.staged_rows import (
    INLINE_BYTES_MAX,
    batch_folder,
    discard,
    query_folder,
    read_staged,
    stage,
    sweep,
)

FEW = pyarrow.table({"n": list(range(10))})
MANY = pyarrow.table({"n": list(range(INLINE_BYTES_MAX // 4))})


def test_few_rows_travel_in_the_message_itself(tmp_path: Path) -> None:
    staged = pickle.loads(pickle.dumps(stage(FEW.to_batches(), str(tmp_path))))
    assert list(tmp_path.iterdir()) == []
    assert staged.rows == 10
    assert pyarrow.Table.from_batches(read_staged([staged])) == FEW


def test_file_of_many_rows_is_deleted_afterwards(tmp_path: Path) -> None:
    batches = MANY.to_batches(max_chunksize=10_000)
    staged = [stage(batches, str(tmp_path / "new")), stage(FEW.to_batches(), str(tmp_path / "new"))]
    assert len(list((tmp_path / "new").iterdir())) == 1
    assert pyarrow.Table.from_batches(read_staged(staged)) == pyarrow.concat_tables([MANY, FEW])
    discard(staged)
    assert list((tmp_path / "new").iterdir()) == []


def test_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    assert list(read_staged([stage([], str(tmp_path))])) == []


def test_files_of_a_crash_are_deleted(tmp_path: Path) -> None:
    stage(MANY.to_batches(), str(tmp_path))
    sweep(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    sweep(str(tmp_path / "never made"))


def test_file_that_the_driver_cannot_read_is_an_error_with_a_hint(tmp_path: Path) -> None:
    staged = stage(MANY.to_batches(), str(tmp_path))
    discard([staged])
    with pytest.raises(HeadraceError, match="staging"):
        list(read_staged([staged]))


def test_folders_of_two_queries_differ() -> None:
    assert query_folder("file:/a/checkpoint", None) == "/a/checkpoint/headrace-staging"
    assert query_folder("/a", "/shared") != query_folder("/b", "/shared")
    assert batch_folder("file:///shared") == "/shared"
    with pytest.raises(BadSink, match="s3://bucket/checkpoint"):
        query_folder("s3://bucket/checkpoint", None)
