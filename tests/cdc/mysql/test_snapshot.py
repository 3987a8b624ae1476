"""Chunks of a table, in the order of keys of all kinds, and the queue of tables."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from headrace.cdc.mysql import snapshot
from headrace.cdc.mysql.catalog import table_by_path
from headrace.cdc.mysql.connection import Connection
from headrace.cdc.mysql.snapshot import ChunkRows, begin_read, read_window
from headrace.cdc.snapshot_queue import Key
from tests.cdc.mysql.steps import Database


@pytest.fixture
def reader(database: Database) -> Iterator[Connection]:
    with Connection(database.address, is_raw=True) as connection:
        yield connection


KEYS = [
    ("a INT", "(3), (-1), (2), (0), (7)"),
    ("a BIGINT UNSIGNED", "(18446744073709551615), (0), (9223372036854775808), (1), (2)"),
    ("a VARCHAR(9)", "('b'), ('A'), ('it''s'), ('ä\\\\'), ('C')"),
    ("a VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_german1_ci", "('b'), ('é'), ('ä'), ('Z'), ('0')"),
    ("a VARBINARY(9)", "(X'00'), (X'FF00'), (X''), (X'27'), (X'5C')"),
    ("a DECIMAL(9,3)", "(1.5), (-2), (0), (1.501), (900)"),
    ("a DOUBLE", "(0.1), (1e300), (-1e-300), (2), (3)"),
    ("a FLOAT", "(0.1), (1e30), (-1e-30), (2), (3.3)"),
    (
        "a DATETIME(6)",
        "('2026-01-01'), ('1000-01-01'), ('2026-01-01 00:00:00.000001'), ('2025-01-01'), ('0000-00-00')",
    ),
    (
        "a TIMESTAMP(3)",
        "('2026-01-01'), ('2026-01-01 00:00:00.001'), ('2025-01-01'), ('2024-01-01'), ('2023-01-01')",
    ),
    ("a TIME(1)", "('-01:00:00'), ('00:00:00.5'), ('838:59:59'), ('-00:00:00.1'), ('1:2:3')"),
    ("a ENUM('z', 'y', 'x', 'w', 'v')", "('v'), ('z'), ('x'), ('w'), ('y')"),
    ("a SET('z', 'y')", "('z'), ('y'), ('z,y'), ('')"),
    ("a BIT(12)", "(5), (0), (4095), (39), (92)"),
    ("a UUID", "(UUID()), (UUID()), ('00000000-0000-0000-0000-000000000000'), (UUID()), (UUID())"),
    ("a INET6", "('::1'), ('::'), ('ff::'), ('::ffff:1.2.3.4'), ('fe80::1')"),
    ("a INT, b VARCHAR(9)", "(1, 'b'), (1, 'a'), (0, 'z'), (2, 'a'), (1, 'c')"),
    (
        "a VARCHAR(9), b DATE, c INT",
        "('x', '2026-01-01', 1), ('x', '2026-01-01', 0), ('x', '2025-01-01', 9), ('', 0, 0)",
    ),
]


@pytest.mark.parametrize(("columns", "rows"), KEYS, ids=[columns for columns, _ in KEYS])
def test_chunks_of_one_row_are_all_rows_in_the_order_of_the_key(
    database: Database, reader: Connection, columns: str, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "WINDOW_ROWS", 1)
    names = ", ".join(part.split()[0] for part in columns.split(", ") if part[0] in "abc")
    database.run("SET SESSION sql_mode = ''", f"CREATE TABLE keyed ({columns}, PRIMARY KEY ({names}))")
    database.run(f"INSERT INTO keyed VALUES {rows}")
    table = table_by_path(Connection(database.address), (database.name, "keyed"))
    assert table is not None
    chunk = ChunkRows(table)
    whole = [chunk.row(values) for values in reader.stream(chunk.statement(reader, None, 100))]
    found = []
    after: Key | None = None
    is_last = False
    while not is_last:
        window, is_last = read_window(reader, chunk, after)
        found += [row for _, row in window]
        after = json.loads(json.dumps(window[-1][0])) if window else after
        assert len(found) < 10, "a row was read twice"
    assert found == whole
    assert len(found) == rows.count("), (") + 1


def test_chunk_ends_early_if_its_rows_are_large(database: Database) -> None:
    database.run("CREATE TABLE large (id INT PRIMARY KEY, content LONGTEXT)")
    database.run("INSERT INTO large SELECT seq, REPEAT('x', 1000) FROM seq_1_to_50")
    table = table_by_path(Connection(database.address), (database.name, "large"))
    assert table is not None
    reader = Connection(database.address, is_raw=True)
    rows, is_last = read_window(reader, ChunkRows(table), None, bytes_max=10_000)
    assert (len(rows), is_last) == (10, False)


def test_chunk_is_read_at_the_place_that_is_returned(database: Database, reader: Connection) -> None:
    database.run("CREATE TABLE notes (id INT PRIMARY KEY)", "INSERT INTO notes VALUES (1)")
    with Connection(database.address) as control:
        begun = begin_read(reader, control, [(database.name, "notes")])
        database.run("INSERT INTO notes VALUES (2)")
        table = table_by_path(control, (database.name, "notes"))
    assert table is not None
    rows, _ = read_window(reader, ChunkRows(table), None)
    assert [row for _, row in rows] == [{"id": 1}]
    assert begun.gtid != database.value("SELECT @@gtid_binlog_pos")


def test_chunk_of_mysql_begins_under_a_lock_that_is_released(database: Database, reader: Connection) -> None:
    """MySQL does not tell the place of a snapshot. What a capture does instead works on MariaDB too."""
    database.run("CREATE TABLE notes (id INT PRIMARY KEY)", "INSERT INTO notes VALUES (1)")
    path = (database.name, "notes")
    with Connection(database.address) as control:
        reader.is_mariadb = control.is_mariadb = False
        begun = begin_read(reader, control, [path])
        file, position = database.rows("SHOW MASTER STATUS")[0][:2]
        database.run("SET SESSION lock_wait_timeout = 10", "INSERT INTO notes VALUES (2)")
    assert (begun.place.file, begun.place.position, begun.gtid) == (file, position, "")
    assert reader.execute("SELECT id FROM notes") == [(b"1",)]
