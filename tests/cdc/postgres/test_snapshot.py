from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from headrace.cdc.change import Change, Committed, Event
from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.catalog import CatalogTable, captured_tables
from headrace.cdc.postgres.snapshot import chunk_statement, open_reader, read_rows, read_window
from headrace.cdc.postgres.source import PostgresSource
from tests.cdc.postgres.steps import Database, changes_of, end_of, take_snapshot, take_until


def table(database: Database, columns: str, key: str, rows: str) -> CatalogTable:
    database.run(f"CREATE TABLE t ({columns}, PRIMARY KEY ({key}))", f"INSERT INTO t {rows}")
    return captured_tables(database.connection, ["public.t"])[0]


@pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
def test_chunks_of_a_composite_key_have_every_row_once_in_order(database: Database, rows_max: int) -> None:
    pairs = "SELECT chr(96 + x) || '''', y FROM generate_series(1, 3) x, generate_series(9, 11) y"
    found = table(database, "a text, b int4", "b, a", pairs)
    reader = open_reader(database.address)
    rows: list[tuple[str | None, ...]] = []
    after: list[str | None] | None = None
    while chunk := list(read_rows(reader, chunk_statement(found, after, rows_max))):
        rows += chunk
        after = [chunk[-1][1], chunk[-1][0]]
    reader.close()
    assert rows == [(f"{letter}'", str(number)) for number in (9, 10, 11) for letter in "abc"]


def test_chunk_of_large_rows_ends_early(database: Database) -> None:
    found = table(
        database, "a int4, b text", "a", "SELECT x, repeat('x', 1000) FROM generate_series(1, 5000) x"
    )
    reader = open_reader(database.address)
    rows, is_cut = read_window(reader, chunk_statement(found, None, 5000), bytes_max=9_500)
    assert (len(rows), is_cut) == (10, True)
    assert reader.closed


def test_connection_that_is_lost_is_an_error_and_not_the_end_of_the_rows(database: Database) -> None:
    found = table(
        database, "a int4, b text", "a", "SELECT x, repeat('x', 5000) FROM generate_series(1, 5000) x"
    )
    reader = open_reader(database.address)
    rows = read_rows(reader, chunk_statement(found, None, 5000))
    next(rows)
    database.run(f"SELECT pg_terminate_backend({reader.info.backend_pid})")
    with pytest.raises(psycopg.OperationalError):
        list(rows)
    reader.close()


def snapshot_end(event: Event) -> bool:
    return isinstance(event, Committed) and "snapshot" not in event.position


def test_requested_snapshot_reads_the_table_while_the_stream_runs(
    database: Database, open_source: Callable[..., PostgresSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cdc.postgres.live.WINDOW_ROWS", 10)
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY)",
        "CREATE TABLE u (id int4 PRIMARY KEY)",
        "INSERT INTO t SELECT generate_series(1, 25)",
        "INSERT INTO u VALUES (1)",
    )
    source = open_source()
    events = source.events(None)
    take_snapshot(events)
    source.snapshot(["public.t"])
    read = changes_of(take_until(events, snapshot_end))
    assert [change.after for change in read] == [{"id": number} for number in range(1, 26)]
    assert all(change.source["snapshot"] for change in read)
    assert ("public.t", 25, True) in [(one.table, one.rows_read, one.is_done) for one in source.progress()]


def test_requested_snapshot_survives_a_crash_before_its_first_row(
    database: Database, open_source: Callable[..., PostgresSource]
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 3)")
    source = open_source()
    events = source.events(None)
    position = end_of(take_until(events, snapshot_end)).position
    source.snapshot(["public.t"])
    source.close()
    again = open_source()
    events = again.events(position)
    taken = take_until(events, snapshot_end)
    assert len(changes_of(taken)) == 3
    again.confirm(end_of(taken).position)
    again.close()
    # It is not read a second time once a position holds it.
    third = open_source()
    database.run("INSERT INTO t VALUES (4)")
    [change] = changes_of(
        take_until(third.events(end_of(taken).position), lambda event: isinstance(event, Change))
    )
    assert change.after == {"id": 4}


def test_snapshot_of_an_unknown_table_names_the_known_ones(
    database: Database, open_source: Callable[..., PostgresSource]
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    with pytest.raises(BadCapture, match=r"public\.x is not captured.*public\.t"):
        open_source().snapshot(["public.x"])


def test_snapshot_requested_before_the_first_run_is_the_initial_one(
    database: Database, open_source: Callable[..., PostgresSource]
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    source = open_source()
    source.snapshot(["public.t"])
    events = [event for event in source.events(None, once=True) if event is not None]
    assert [change.after for change in changes_of(events)] == [{"id": 1}]
