"""Files of a Delta table: their size, their statistics, and where they are put."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.pipeline.sinks.delta_files import DeltaFolder, statistics_of, write_files


def statistics(path: Path, rows: pa.Table) -> dict[str, Any]:
    pq.write_table(rows, path)
    found: dict[str, Any] = json.loads(statistics_of(pq.read_metadata(path)))
    return found


def test_file_begins_when_one_is_large_enough(tmp_path: Path) -> None:
    rows = pa.table({"n": range(100)})
    folder = DeltaFolder(address=str(tmp_path), storage_options={})
    files = list(write_files(folder, [rows, rows, rows], rows.schema, 1, 1_000))
    assert [each.rows for each in files] == [100, 100, 100]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(each.path for each in files)
    assert [each.size for each in files] == [(tmp_path / each.path).stat().st_size for each in files]
    (whole,) = write_files(folder, [rows, rows, rows], rows.schema, 10**9, 1_000)
    assert pq.read_table(tmp_path / whole.path)["n"].to_pylist() == [*range(100)] * 3


def test_no_rows_are_no_file(tmp_path: Path) -> None:
    folder = DeltaFolder(address=str(tmp_path), storage_options={})
    assert list(write_files(folder, [], pa.schema([("n", pa.int64())]), 10, 0)) == []


def test_files_reach_an_address(tmp_path: Path) -> None:
    rows = pa.table({"n": [1, 2]})
    folder = DeltaFolder(address=tmp_path.as_uri(), storage_options={})
    (file,) = write_files(folder, [rows], rows.schema, 10**9, 0)
    assert pq.read_table(tmp_path / file.path) == rows


def test_statistics_bound_the_values_of_a_column(tmp_path: Path) -> None:
    at = datetime(2026, 11, 15, 13, 59, 0, 120_000, tzinfo=UTC)
    rows = pa.table(
        {
            "n": [3, None, -1],
            "t": ["b", "a", None],
            "d": [date(2026, 1, 2), date(2026, 1, 1), None],
            "at": pa.array([at, at, at], pa.timestamp("us", "UTC")),
        }
    )
    found = statistics(tmp_path / "part", rows)
    assert found["numRecords"] == 3
    assert found["nullCount"] == {"n": 1, "t": 1, "d": 1, "at": 0}
    assert found["minValues"] == {"n": -1, "t": "a", "d": "2026-01-01", "at": "2026-11-15T13:59:00.120Z"}
    assert found["maxValues"] == {"n": 3, "t": "b", "d": "2026-01-02", "at": "2026-11-15T13:59:00.120Z"}


def test_values_that_statistics_would_cut_have_none(tmp_path: Path) -> None:
    """A reader would skip the file for a value that it has."""
    fine = datetime(2026, 11, 15, 13, 59, 0, 123_456, tzinfo=UTC)
    rows = pa.table(
        {
            "long": ["x" * 33],
            "fine": pa.array([fine], pa.timestamp("us", "UTC")),
            "float": [float("nan")],
            "nested": [[1, 2]],
        }
    )
    found = statistics(tmp_path / "part", rows)
    assert found["minValues"] == found["maxValues"] == {}


def test_credentials_are_not_shown() -> None:
    assert "hidden" not in repr(DeltaFolder(address="s3://b", storage_options={"secret": "hidden"}))
