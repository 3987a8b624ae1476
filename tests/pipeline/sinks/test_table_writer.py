"""The writer of a table on the driver: the transaction of a batch. `test_table.py` has what it writes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.pipeline.sinks.table import Table
from headrace.pipeline.sinks.table_writer import TableWriter
from tests.pipeline.sinks.databases import Batches, Sqlite, schema_of

SCHEMA = schema_of(id="string", n="long")


def test_batch_that_fails_while_letters_are_written_leaves_nothing(tmp_path: Path) -> None:
    database = Sqlite(tmp_path / "views.db")

    def crash(rows: object) -> None:
        raise RuntimeError("no dead letters now")

    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        assert isinstance(table.writer, TableWriter)
        rows = pa.table({"id": ["a", None], "n": [1, 2]}).to_batches()
        with pytest.raises(RuntimeError, match="no dead letters now"):
            table.writer.apply(rows, table.fence(), crash)
        assert table.writer.applied() is None
    assert database.query("SELECT * FROM t") == []


def test_cleared_table_has_neither_rows_nor_a_fence(tmp_path: Path) -> None:
    database = Sqlite(tmp_path / "views.db")
    with closing(Batches(Table("t", key="id", at=database.at), SCHEMA)) as table:
        table.write(("a", 1))
        table.writer.clear()
        assert table.writer.applied() is None
    assert database.query("SELECT * FROM t") == []
