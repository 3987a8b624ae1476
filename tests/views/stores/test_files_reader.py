from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores.folder_versions import FolderVersions
from headrace.views.stores.parquet import ParquetReader

SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32())])


@pytest.fixture
def reader(tmp_path: Path) -> ParquetReader:
    definition = Definition(name="users", topics=("t",), key=("id", "day"), store="parquet")
    (tmp_path / ".users__1.snapshots" / "0").mkdir(parents=True)
    (tmp_path / "users__1").symlink_to(".users__1.snapshots/0")
    return ParquetReader(FolderVersions(definition, tmp_path), 1)


def test_error_of_a_file_is_one_that_may_pass(reader: ParquetReader) -> None:
    with pytest.raises(ViewUnavailable, match="cannot be read"), reader.reading():
        raise OSError("bad sector")


def test_error_of_a_selection_stays_one(reader: ParquetReader) -> None:
    with pytest.raises(BadView, match="wrong"), reader.reading():
        raise BadView("wrong")


def test_version_that_was_dropped_is_the_error(reader: ParquetReader, tmp_path: Path) -> None:
    (tmp_path / "users__1").unlink()
    for error in (OSError("no such file"), BadView("wrong")):
        with pytest.raises(ViewUnavailable, match="any more"), reader.reading():
            raise error
    with pytest.raises(ViewUnavailable, match="any more"), reader.reading():
        pass


def test_key_has_all_columns_with_values_of_their_types(reader: ParquetReader) -> None:
    values = reader.key_values({"id": 1, "day": None}, SCHEMA)
    assert [each.as_py() for each in values.values()] == [1, None]
    for key in ({"id": 1}, {"id": "one", "day": None}):
        with pytest.raises(BadView, match="the key is id, day"):
            reader.key_values(key, SCHEMA)
