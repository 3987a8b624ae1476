"""Every value reaches PostgreSQL as it is, as the text that COPY reads."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa

from headrace.pipeline.sinks.postgres_client import connect
from headrace.pipeline.sinks.table_copy import COPY_ROWS, copy_rows, with_nul
from headrace.testing.postgres import PostgresServer

ROW = {
    "t": 'a,"b"\n\\.',
    "b": b"\x00\xff",
    "d": date(1969, 7, 20),
    "at": datetime(2026, 11, 15, 13, 59, 0, 123456, tzinfo=UTC),
    "n": Decimal("-0.0000000001"),
    "i": timedelta(days=3, microseconds=1),
}
TYPES = "t text, b bytea, d date, at timestamptz, n numeric, i interval"


def test_values_are_copied_as_they_are(postgres: PostgresServer) -> None:
    rows = pa.Table.from_pylist([ROW, dict.fromkeys(ROW)])
    with closing(connect(postgres.address, "copy")) as connection:
        connection.execute(f"CREATE TEMP TABLE copied ({TYPES})".encode())
        copy_rows(connection, "copied", rows)
        assert connection.execute("SELECT * FROM copied").fetchall() == [
            tuple(ROW.values()),
            tuple(None for _ in ROW),
        ]


def test_rows_of_several_blocks_are_all_copied(postgres: PostgresServer) -> None:
    count = COPY_ROWS + 1
    with closing(connect(postgres.address, "copy")) as connection:
        connection.execute("CREATE TEMP TABLE copied (n int)")
        copy_rows(connection, "copied", pa.table({"n": range(count)}))
        found = connection.execute("SELECT count(*), max(n) FROM copied").fetchone()
    assert found == (count, count - 1)


def test_texts_with_nul_are_found() -> None:
    found = with_nul(pa.table({"n": [1, 2, 3], "t": ["a", "b\0", None]}))
    assert [each.position for each in found] == [1]
    assert "column t" in found[0].reason
