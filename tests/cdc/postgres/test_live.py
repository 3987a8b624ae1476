from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from headrace.cdc.change import Change, Committed, Event, Op
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres.replication import lsn_number
from headrace.cdc.postgres.source import PostgresSource
from headrace.testing.postgres import PostgresServer
from tests.cdc.postgres.steps import (
    LOGICAL,
    WAIT_S,
    Database,
    changes_of,
    end_of,
    idle,
    lsn_of,
    read_on,
    state_of,
    take_snapshot,
    take_transaction,
    take_until,
)

OpenSource = Callable[..., PostgresSource]


@pytest.fixture
def table(database: Database) -> Database:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, n int4)",
        "INSERT INTO t SELECT x, 0 FROM generate_series(1, 400) x",
    )
    return database


def flushed(database: Database) -> int:
    return lsn_number(
        database.value(
            "SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE database = current_database()"
        )
    )


def test_server_discards_only_what_was_confirmed(table: Database, open_source: OpenSource) -> None:
    source = open_source(heartbeat_s=0.1)
    events = source.events(None)
    start = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    ends = []
    for number in range(3):
        table.run(f"UPDATE t SET n = {number + 1} WHERE id = 1")
        ends.append(end_of(take_transaction(events)).position)
    # Keepalives and heartbeats go on meanwhile.
    idle(events, 8)
    assert flushed(table) == start["lsn"]
    source.confirm(ends[0])
    idle(events, 8)
    assert flushed(table) == ends[0]["lsn"]
    source.confirm(ends[2])
    idle(events, 8)
    assert flushed(table) == ends[2]["lsn"]


def test_position_within_a_transaction_confirms_only_the_one_before(
    table: Database, open_source: OpenSource
) -> None:
    source = open_source()
    events = source.events(None)
    start = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    table.run("UPDATE t SET n = 1")
    first = take_until(events, lambda event: isinstance(event, Change))[-1]
    assert first.position is not None
    source.confirm(first.position)
    take_transaction(events)
    idle(events, 3)
    assert flushed(table) == start["lsn"]


def test_heartbeat_lets_the_server_discard_the_log_of_other_tables(
    table: Database, open_source: OpenSource
) -> None:
    table.run("CREATE TABLE busy (id int4 PRIMARY KEY)")
    source = open_source("public.t", heartbeat_s=0.1)
    events = source.events(None)
    start = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    table.run("INSERT INTO busy SELECT generate_series(1, 1000)")
    written = lsn_number(table.value("SELECT pg_current_wal_lsn()::text"))
    beat = take_until(
        events, lambda event: isinstance(event, Committed) and lsn_of(event.position) >= written
    )[-1]
    assert isinstance(beat, Committed)
    assert beat.transaction is None
    assert written > start["lsn"]
    source.confirm(beat.position)
    idle(events, 3)
    assert flushed(table) == beat.position["lsn"]
    source.close()
    table.run("UPDATE t SET n = 9 WHERE id = 3")
    [change] = changes_of(take_transaction(open_source("public.t").events(beat.position)))
    assert change.after == {"id": 3, "n": 9}


def test_nothing_new_is_none_after_a_moment(table: Database, open_source: OpenSource) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    idle(events)
    assert next(events) is None


def test_snapshot_under_load_keeps_the_order_of_every_key(
    table: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cdc.postgres.live.WINDOW_ROWS", 25)
    source = open_source()
    events = source.events(None)
    taken: list[Event] = list(take_snapshot(events))
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(table.address, autocommit=True) as connection:
            number = 0
            while not stop.is_set():
                number += 1
                key = number * 37 % 400 + 1
                connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [key])
                if number % 5 == 0:
                    connection.execute("DELETE FROM t WHERE id = %s", [key])
                    connection.execute("INSERT INTO t VALUES (%s, %s) ON CONFLICT DO NOTHING", [key, number])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(3):
            source.snapshot(["public.t"])
            taken += take_until(
                events, lambda event: isinstance(event, Committed) and "snapshot" not in event.position
            )
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    table.run("INSERT INTO t VALUES (-1, 0)")
    taken += take_until(events, lambda event: isinstance(event, Change) and event.after == {"id": -1, "n": 0})
    changes = changes_of(taken)
    assert state_of(changes) == {
        ("public.t", key): {"id": key, "n": n} for key, n in table.rows("SELECT id, n FROM t")
    }
    # A row that is read repeats the state of its key at that point of the stream: nothing older, nothing newer.
    state: dict[int, Any] = {}
    reads = 0
    for change in changes:
        if change.op is Op.DELETE:
            state.pop((change.before or {})["id"])
            continue
        row = change.after or {}
        if change.op is Op.READ and row["id"] in state:
            reads += 1
            assert state[row["id"]] == row
        state[row["id"]] = row
    assert reads > 600


def test_slot_dropped_in_mid_stream_is_an_error_with_a_remedy(
    table: Database, open_source: OpenSource
) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    idle(events)
    table.drop_slots()
    with pytest.raises(BadCapture, match=r"was dropped.*add it again"):
        read_on(events)


def test_ended_stream_of_a_healthy_slot_can_be_tried_again(table: Database, open_source: OpenSource) -> None:
    events = open_source().events(None)
    take_snapshot(events)
    idle(events)
    table.run(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()"
    )
    with pytest.raises(SourceUnavailable):
        read_on(events)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    with PostgresServer(
        settings=LOGICAL | {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB"}
    ) as server:
        yield server


def test_killed_server_is_unavailable_and_the_capture_continues_after_it(own_server: PostgresServer) -> None:
    address = own_server.create_database("shop")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    source = PostgresSource("shop", address)
    events = source.events(None)
    position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    idle(events)
    own_server.kill()
    with pytest.raises(SourceUnavailable, match=r"postgresql://127\.0\.0\.1:\d+/shop"):
        read_on(events)
    with pytest.raises(SourceUnavailable):
        next(source.events(position))
    own_server.start()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    [change] = changes_of(take_transaction(source.events(position)))
    assert change.after == {"id": 1}
    source.close()


def test_lost_slot_is_an_error_with_a_remedy_in_mid_stream_and_at_the_start(
    own_server: PostgresServer,
) -> None:
    address = own_server.create_database("shop")
    source = PostgresSource("shop", address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
        events = source.events(None)
        position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
        idle(events)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            connection.execute("INSERT INTO t SELECT coalesce(max(id), 0) + 1 FROM t")
            connection.execute("SELECT pg_switch_wal()")
            connection.execute("CHECKPOINT")
            row = connection.execute("SELECT wal_status FROM pg_replication_slots").fetchone()
            if row == ("lost",):
                break
    with pytest.raises(BadCapture, match=r"is lost.*max_slot_wal_keep_size"):
        read_on(events)
    with pytest.raises(BadCapture, match=r"is lost.*max_slot_wal_keep_size"):
        next(source.events(position))
    source.close()


def test_server_that_is_stopped_does_not_wait_for_an_idle_capture(own_server: PostgresServer) -> None:
    address = own_server.create_database("shop")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    source = PostgresSource("shop", address)
    events = source.events(None)
    take_snapshot(events)
    idle(events)
    stopping = threading.Thread(target=own_server.stop)
    stopping.start()
    with pytest.raises(SourceUnavailable):
        read_on(events, source.confirm)
    stopping.join()
    source.close()
