from __future__ import annotations

import threading
from collections.abc import Callable

import psycopg
import pytest

from headrace.cdc.change import Change, Committed, Event, Op
from headrace.cdc.postgres.source import PostgresSource
from tests.cdc.postgres.steps import Database, changes_of, state_of, take_snapshot, take_until

OpenSource = Callable[..., PostgresSource]


def write_until(database: Database, stop: threading.Event) -> None:
    """Inserts, updates, deletes and key changes, as fast as one connection can."""
    with psycopg.connect(database.address, autocommit=True) as connection:
        number = 0
        while not stop.is_set():
            number += 1
            key = number * 7919 % 3_000
            connection.execute(
                "INSERT INTO t VALUES (%s, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + 1", [key]
            )
            connection.execute("UPDATE t SET n = n + 1 WHERE id IN (%s, %s)", [key + 1, key + 2])
            connection.execute("DELETE FROM t WHERE id = %s", [key * 31 % 3_000])
            connection.execute("UPDATE t SET id = id + 100000 WHERE id = %s", [key * 17 % 3_000])


def table_state(database: Database) -> dict[tuple[object, ...], object]:
    return {("public.t", key): {"id": key, "n": n} for key, n in database.rows("SELECT id, n FROM t")}


def test_snapshot_and_stream_together_are_the_table_under_a_concurrent_writer(
    database: Database, open_source: OpenSource
) -> None:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, n int4)",
        "INSERT INTO t SELECT x, 0 FROM generate_series(1, 3000) x",
    )
    stop = threading.Event()
    writer = threading.Thread(target=write_until, args=(database, stop))
    writer.start()
    try:
        events = open_source().events(None)
        taken = take_until(events, lambda event: isinstance(event, Committed))
        left = iter(range(1_500, -1, -1))
        taken += take_until(events, lambda event: isinstance(event, Change) and next(left) == 0)
    finally:
        stop.set()
        writer.join()
    database.run("INSERT INTO t VALUES (-1, 0)")
    taken += take_until(events, lambda event: isinstance(event, Change) and event.after == {"id": -1, "n": 0})
    changes = changes_of(taken)
    assert state_of(changes) == table_state(database)
    # A counter shows that no update is missing or doubled: each one adds 1.
    counters: dict[int, int] = {}
    for change in changes:
        if change.after is not None:
            key, n = change.after["id"], change.after["n"]
            assert change.op is not Op.UPDATE or n == counters[key] + 1
            counters[key] = n
    positions = [repr(event.position) for event in taken]
    assert len(set(positions)) == len(positions)


class SnapshotAndUpdates:
    """Whether the snapshot has ended, and the last table's updates have come."""

    def __init__(self) -> None:
        self._is_updated = False

    def __call__(self, event: Event) -> bool:
        if isinstance(event, Change):
            self._is_updated |= event.op is Op.UPDATE and event.table.name == "public.u"
            return False
        return self._is_updated and "snapshot" not in event.position


def test_snapshot_restarted_at_any_row_has_the_other_rows(
    database: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cdc.postgres.block_reader.BLOCK_ROWS", 2)
    monkeypatch.setattr("headrace.cdc.postgres.live.WINDOW_ROWS", 2)
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, n int4)",
        "CREATE TABLE u (id int4 PRIMARY KEY, n int4)",
        "INSERT INTO t SELECT x, 0 FROM generate_series(1, 4) x",
        "INSERT INTO u SELECT x, 0 FROM generate_series(1, 3) x",
    )

    for count in range(1, 8):
        first = open_source()
        events = first.events(None)
        left = iter(range(count - 1, -1, -1))
        before = changes_of(take_until(events, lambda _, left=left: next(left) == 0))  # type: ignore[misc]
        first.close()
        # Written between the two runs: after the rows that were read, and in front of those that were not.
        database.run("UPDATE t SET n = n + 1", "UPDATE u SET n = n + 1")
        second = open_source()
        is_complete = SnapshotAndUpdates()
        after = changes_of(take_until(second.events(before[-1].position), is_complete))
        read = [
            (change.table.name, (change.after or {})["id"])
            for change in [*before, *after]
            if change.op is Op.READ
        ]
        assert sorted(read) == [("public.t", key) for key in (1, 2, 3, 4)] + [
            ("public.u", key) for key in (1, 2, 3)
        ]
        assert {key: row["n"] for key, row in state_of([*before, *after]).items()} == {
            ("public.t", key): count for key in (1, 2, 3, 4)
        } | {("public.u", key): count for key in (1, 2, 3)}
        second.close()


def test_rows_committed_while_tables_are_read_come_only_once(
    database: Database, open_source: OpenSource
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY, n int4)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    events = open_source().events(None)
    first = take_until(events, lambda event: isinstance(event, Change))
    database.run("INSERT INTO t VALUES (3, 0)", "DELETE FROM t WHERE id = 2")
    rest = take_until(events, lambda event: isinstance(event, Change) and event.op is Op.DELETE)
    found = [
        (change.op, (change.after or change.before or {})["id"]) for change in changes_of([*first, *rest])
    ]
    assert found == [(Op.READ, 1), (Op.READ, 2), (Op.CREATE, 3), (Op.DELETE, 2)]


def test_second_attempt_without_a_position_begins_with_a_new_snapshot(
    database: Database, open_source: OpenSource
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY, n int4)", "INSERT INTO t VALUES (1, 0)")
    take_snapshot(open_source().events(None))
    database.run("INSERT INTO t VALUES (2, 0)")
    read = take_snapshot(open_source().events(None))
    assert [change.after for change in read] == [{"id": 1, "n": 0}, {"id": 2, "n": 0}]


def test_tables_of_inheritance_and_partitions_are_read_once(
    database: Database, open_source: OpenSource
) -> None:
    database.run(
        "CREATE TABLE parent (id int4 PRIMARY KEY)",
        "CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent)",
        "INSERT INTO parent VALUES (1)",
        "INSERT INTO child VALUES (2)",
        "CREATE TABLE parts (id int4 PRIMARY KEY, g int4 GENERATED ALWAYS AS (id * 2) STORED) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE high PARTITION OF parts FOR VALUES FROM (10) TO (20)",
        "INSERT INTO parts VALUES (3), (13)",
    )
    events = open_source().events(None)
    read = take_snapshot(events)
    assert [(change.table.name, change.after) for change in read] == [
        ("public.child", {"id": 2}),
        ("public.parent", {"id": 1}),
        ("public.parts", {"id": 3}),
        ("public.parts", {"id": 13}),
    ]
    database.run("INSERT INTO parts VALUES (4)", "INSERT INTO child VALUES (5)")
    wanted = [("public.parts", {"id": 4}), ("public.child", {"id": 5})]
    left = iter(wanted)
    streamed = changes_of(
        take_until(events, lambda event: isinstance(event, Committed) and next(left) == wanted[1])
    )
    assert [(change.table.name, change.after) for change in streamed] == wanted
