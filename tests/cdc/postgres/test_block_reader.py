"""Tables are read in ranges, on several connections, in the order of their keys."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import psycopg
import pytest

from headrace.cdc.postgres import block_reader
from headrace.cdc.postgres.block_reader import BlockReader, copied
from headrace.cdc.postgres.catalog import all_types, captured_tables
from headrace.cdc.postgres.connection import Connection
from headrace.cdc.postgres.relation import describe_catalog
from headrace.cdc.postgres.snapshot import open_reader, range_statement
from tests.cdc.postgres.steps import Database


@pytest.fixture
def connections(database: Database) -> Iterator[Sequence[Connection]]:
    opened = [open_reader(database.address) for _ in range(3)]
    yield opened
    for connection in opened:
        connection.close()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_reader, "BLOCK_ROWS", 10)
    monkeypatch.setattr(block_reader, "RANGE_ROWS", 100)


def reader(database: Database, connections: Sequence[Connection]) -> BlockReader:
    (table,) = captured_tables(database.connection, ["public.t"])
    return BlockReader(connections, table, describe_catalog("d", table, all_types(database.connection)))


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("key", ["id", "name, id"])
def test_ranges_together_are_the_table_in_the_order_of_its_key(
    database: Database, connections: Sequence[Connection], key: str
) -> None:
    database.run(
        f"CREATE TABLE t (id int4, name text, PRIMARY KEY ({key}))",
        "INSERT INTO t SELECT x, 'it''s \\ ' || x % 7 FROM generate_series(1, 5000) x",
        "ANALYZE t",
    )
    blocks = list(reader(database, connections).blocks())
    assert max(block.count for block in blocks) == 10
    assert len(blocks) > 5_000 / 10, "there is one range only"
    found = [tuple(block.key(row)) for block in blocks for row in range(block.count)]
    listed = database.rows(f"SELECT {key} FROM t ORDER BY {key}")
    assert found == [tuple(map(str, row)) for row in listed]


@pytest.mark.usefixtures("small_blocks")
def test_reader_that_is_closed_early_stops_its_threads(
    database: Database, connections: Sequence[Connection]
) -> None:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 50000)", "ANALYZE t"
    )
    before = threading.active_count()
    blocks = reader(database, connections).blocks()
    assert next(blocks).count == 10
    blocks.close()
    assert threading.active_count() == before


def test_error_of_the_server_is_raised(database: Database, connections: Sequence[Connection]) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    blocks = reader(database, connections)
    database.run("DROP TABLE t")
    with pytest.raises(psycopg.errors.UndefinedTable):
        list(blocks.blocks())


def test_block_ends_with_the_row_that_makes_it_large(
    database: Database, connections: Sequence[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_reader, "BLOCK_BYTES", 1_000)
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, text text)",
        "INSERT INTO t SELECT x, repeat('x', 700) FROM generate_series(1, 5) x",
    )
    (table,) = captured_tables(database.connection, ["public.t"])
    statement = range_statement(table, None, None)
    texts = list(copied(connections[0], statement, threading.Event()))
    assert [text.count(b"\n") for text in texts] == [2, 2, 1]
    assert connections[0].execute("SELECT 1").fetchone() == (1,), "the connection can be used further"
