from __future__ import annotations

import os
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.parquet_layout import check_partitions, newest_snapshot, partition_folder


@pytest.mark.parametrize(
    ("values", "folder"),
    [
        (("Oslo", 2026), "city=Oslo/year=2026"),
        (("Å/=%", None), "city=Å%2F%3D%25/year=__HIVE_DEFAULT_PARTITION__"),
        ((date(2026, 1, 2), True), "city=2026-01-02/year=true"),
    ],
)
def test_folders_are_named_as_hive_names_them(values: tuple[object, ...], folder: str) -> None:
    assert partition_folder(("city", "year"), values) == folder


@pytest.mark.parametrize("kind", [pa.float64(), pa.timestamp("us"), pa.list_(pa.int64()), pa.binary()])
def test_partition_whose_value_is_no_plain_text_is_rejected(kind: pa.DataType) -> None:
    with pytest.raises(BadSink, match="can't be a partition: at"):
        check_partitions(pa.schema([("id", pa.string()), ("at", kind)]), ["at"])


def test_table_needs_a_column_beside_its_partitions() -> None:
    with pytest.raises(BadSink, match="all columns"):
        check_partitions(pa.schema([("id", pa.string())]), ["id"])


def test_folder_that_is_no_link_was_not_created_here(tmp_path: Path) -> None:
    assert newest_snapshot(tmp_path / "missing") is None
    os.mkdir(tmp_path / "table")
    with pytest.raises(BadSink, match="was not created by Headrace"):
        newest_snapshot(tmp_path / "table")
