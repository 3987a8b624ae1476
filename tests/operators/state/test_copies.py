"""Copies of the state: a reader sees one committed batch in all buckets, whatever the running batch has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.state.copies import CopyChanged, keep_copy, open_copies
from headrace.operators.state.run import ID, ID_TYPE, Run, ids_column

OWNER = "tumbling 1f2e3d4c"


def run(name: str, *numbers: int) -> Run:
    ids = np.array(numbers, dtype=np.complex128)
    rows = pa.table(
        [ids_column(ids), pa.array(numbers)], schema=pa.schema([(ID, ID_TYPE), ("n", pa.int64())])
    )
    made = Run.of(rows, np.empty(0, dtype=np.complex128))
    return Run(made.rows, name=name)


def keep(folder: Path, bucket: int, batch_id: int, *runs: Run) -> None:
    keep_copy(folder, owner=OWNER, bucket=bucket, batch_id=batch_id, runs=runs)


def numbers(folder: Path, batch_id: int) -> dict[int, list[int]]:
    found = {each.number: each.rows() for each in open_copies(folder, OWNER, batch_id)}
    return {bucket: sorted(rows["n"].to_pylist()) for bucket, rows in found.items() if rows is not None}


def test_reader_sees_the_committed_batch_and_not_the_running_one(tmp_path: Path) -> None:
    keep(tmp_path, 3, 0, run("a", 1, 2))
    keep(tmp_path, 7, 0, run("b", 5))
    keep(tmp_path, 3, 1, run("a", 1, 2), run("c", 3))
    keep(tmp_path, 9, 1, run("d", 9))
    assert numbers(tmp_path, 0) == {3: [1, 2], 7: [5]}
    assert numbers(tmp_path, 1) == {3: [1, 2, 3], 7: [5], 9: [9]}


def test_newer_run_replaces_rows_and_an_empty_bucket_is_omitted(tmp_path: Path) -> None:
    keep(tmp_path, 3, 0, run("a", 1, 2))
    keep(tmp_path, 3, 1)
    assert numbers(tmp_path, 1) == {}


def test_task_that_runs_again_replaces_its_copy(tmp_path: Path) -> None:
    """The first attempt may have been committed: its runs are in the next manifest, and are written again."""
    keep(tmp_path, 3, 0, run("first", 1))
    keep(tmp_path, 3, 0, run("second", 1))
    assert numbers(tmp_path, 0) == {3: [1]}
    keep(tmp_path, 3, 1, run("first", 1), run("next", 2))
    assert numbers(tmp_path, 1) == {3: [1, 2]}


def test_files_of_old_batches_are_deleted(tmp_path: Path) -> None:
    for batch_id in range(20):
        keep(tmp_path, 3, batch_id, run("base", 1), run(f"run{batch_id}", batch_id + 10))
    own = tmp_path / OWNER / "3"
    assert {path.name for path in own.iterdir()} == {
        "18.json",
        "19.json",
        "base.arrow",
        "run18.arrow",
        "run19.arrow",
    }


def test_open_copy_outlives_its_files(tmp_path: Path) -> None:
    keep(tmp_path, 3, 0, run("a", *range(1_000)))
    (opened,) = open_copies(tmp_path, OWNER, 0)
    for batch_id in (1, 2, 3):
        keep(tmp_path, 3, batch_id, run(f"other{batch_id}", 7))
    rows = opened.rows()
    assert rows is not None
    assert sorted(rows["n"].to_pylist()) == list(range(1_000))


def test_copy_that_was_deleted_meanwhile_is_reported(tmp_path: Path) -> None:
    keep(tmp_path, 3, 0, run("a", 1))
    (tmp_path / OWNER / "3" / "a.arrow").unlink()
    with pytest.raises(CopyChanged, match="bucket 3"):
        open_copies(tmp_path, OWNER, 0)


def test_unknown_operator_has_no_buckets(tmp_path: Path) -> None:
    assert open_copies(tmp_path, "session 00000000", 5) == []
