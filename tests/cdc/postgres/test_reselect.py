from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from headrace.cdc.change import UNAVAILABLE, Change, Committed, Event, Op
from headrace.cdc.postgres import reselect as module
from headrace.cdc.postgres.snapshot import read_window
from headrace.cdc.postgres.source import PostgresSource
from headrace.testing.postgres import PostgresServer
from tests.cdc.postgres.steps import (
    LOGICAL,
    Database,
    changes_of,
    state_of,
    take_changes,
    take_snapshot,
    take_transaction,
    take_until,
)

OpenSource = Callable[..., PostgresSource]

LARGE = "repeat('0123456789', 1000)"
TABLE = "CREATE TABLE t (id int4 PRIMARY KEY, big text, n int4)"
EXTERNAL = "ALTER TABLE t ALTER COLUMN big SET STORAGE EXTERNAL"


def large(text: str = "0123456789") -> str:
    return text * 1000


@pytest.fixture
def table(database: Database) -> Database:
    """With one row, whose value is not compressed."""
    database.run(TABLE, EXTERNAL, f"INSERT INTO t VALUES (1, {LARGE}, 0)")
    return database


def started(source: PostgresSource) -> Iterator[Event | None]:
    events = source.events(None)
    take_snapshot(events)
    return events


def test_unchanged_value_is_read_again(table: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    table.run("UPDATE t SET n = 1")
    (change,) = take_changes(events, 1)
    assert change.after == {"id": 1, "big": UNAVAILABLE, "n": 1}
    assert change.whole == {"id": 1, "big": large(), "n": 1}


def test_source_that_does_not_reselect_leaves_values_unavailable(
    table: Database, open_source: OpenSource
) -> None:
    events = started(open_source(reselect=False))
    table.run("UPDATE t SET n = 1")
    (change,) = take_changes(events, 1)
    assert (change.after, change.whole) == ({"id": 1, "big": UNAVAILABLE, "n": 1}, None)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("text", "E'tab\\t line\\n back\\\\slash \\\\N ünï \"q\"' || repeat('y', 9000)"),
        ("char(9000)", "'padded'"),
        ("bytea", "decode(repeat('00ff5c0a', 3000), 'hex')"),
        ("jsonb", "jsonb_build_object('a', repeat('\"x\\', 5000), 'b', ARRAY[1.50, null])"),
        ("json", "('{\"b\" : [ 1.50 ],  \"a\":\"' || repeat('z', 9000) || '\"}')::json"),
        ("text[]", "array_fill('a\"b,{c}\\ NULL'::text, ARRAY[1000]) || NULL::text"),
        ("int4[]", "array_fill(7, ARRAY[40, 50])"),
        ("timestamptz[]", "array_fill('2024-02-29 12:30:00.123456+02'::timestamptz, ARRAY[1000])"),
        ("bytea[]", "array_fill('\\x005c22'::bytea, ARRAY[1000])"),
        ("numeric", "(repeat('123456789', 2000) || '.' || repeat('987654321', 200))::numeric"),
    ],
)
def test_value_is_the_same_as_in_a_snapshot(
    database: Database, open_source: OpenSource, type: str, value: str
) -> None:
    database.run(f"CREATE TABLE t (id int4 PRIMARY KEY, big {type}, n int4)", EXTERNAL)
    database.run(f"INSERT INTO t VALUES (1, {value}, 0)")
    events = open_source().events(None)
    (read,) = take_snapshot(events)
    database.run("UPDATE t SET n = 1")
    (change,) = take_changes(events, 1)
    assert change.after == {"id": 1, "big": UNAVAILABLE, "n": 1}
    assert read.after is not None
    assert change.whole == {**read.after, "n": 1}


@pytest.mark.parametrize(
    ("type", "key"),
    [
        ("numeric", "1.50"),
        ("timestamptz", "2024-02-29 12:30:00.123456+02"),
        ("text", "it''s \\ \"ü\""),
        ("bytea", "\\x005c"),
        ("char(5)", "a"),
        ("float8", "0.1"),
        ("int4[]", "{1,2}"),
        ("date", "2024-02-29"),
    ],
)
def test_row_is_found_by_a_key_of_any_type(
    database: Database, open_source: OpenSource, type: str, key: str
) -> None:
    database.run(f"CREATE TABLE t (b {type}, big text, n int4, a int4, PRIMARY KEY (a, b))", EXTERNAL)
    database.run(f"INSERT INTO t SELECT '{key}', {LARGE} || x, 0, x FROM generate_series(1, 3) x")
    events = started(open_source())
    database.run("UPDATE t SET n = 1")
    found = take_changes(events, 3)
    assert [change.whole and change.whole["big"] for change in found] == [large() + x for x in "123"]


def test_row_of_a_partitioned_table_is_found(database: Database, open_source: OpenSource) -> None:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, big text, n int4) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        EXTERNAL,
        f"INSERT INTO t VALUES (1, {LARGE}, 0)",
    )
    events = started(open_source())
    database.run("UPDATE t SET n = 1")
    (change,) = take_changes(events, 1)
    assert change.whole == {"id": 1, "big": large(), "n": 1}


def test_row_that_is_deleted_keeps_the_placeholder(table: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    table.run("UPDATE t SET n = 1", "DELETE FROM t")
    update, delete = take_changes(events, 2)
    assert (update.op, delete.op) == (Op.UPDATE, Op.DELETE)
    assert update.after == {"id": 1, "big": UNAVAILABLE, "n": 1}
    assert update.whole is None


def test_row_that_has_another_key_is_whole_under_it(table: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    table.run("UPDATE t SET n = 1", "UPDATE t SET id = 2")
    update, delete, create = take_changes(events, 3)
    assert update.whole is None
    assert (delete.op, create.op) == (Op.DELETE, Op.CREATE)
    assert create.whole == {"id": 2, "big": large(), "n": 1}


def test_newer_value_is_followed_by_its_change(table: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    table.run("UPDATE t SET n = 1", "UPDATE t SET big = 'small'", "UPDATE t SET big = NULL")
    first, second, third = take_changes(events, 3)
    assert first.whole is None, "null is not the value of a change that has one"
    assert second.after == {"id": 1, "big": "small", "n": 1}
    assert third.after == {"id": 1, "big": None, "n": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN big",
        "ALTER TABLE t RENAME COLUMN big TO large",
        "ALTER TABLE t ALTER COLUMN big TYPE bytea USING big::bytea",
        "ALTER TABLE t DROP CONSTRAINT t_pkey",
        "TRUNCATE t",
    ],
)
def test_table_that_has_changed_since_keeps_the_placeholder_and_the_capture_goes_on(
    table: Database, open_source: OpenSource, statement: str
) -> None:
    table.run("CREATE TABLE other (id int4 PRIMARY KEY)")
    events = started(open_source())
    table.run("UPDATE t SET n = 1", statement, "INSERT INTO other VALUES (7)")
    taken = take_until(events, lambda event: isinstance(event, Change) and event.after == {"id": 7})
    update = changes_of(taken)[0]
    assert (update.after, update.whole) == ({"id": 1, "big": UNAVAILABLE, "n": 1}, None)


def test_value_is_that_of_the_table_and_not_of_another_one_with_its_name(
    table: Database, open_source: OpenSource
) -> None:
    events = started(open_source())
    table.run(
        "UPDATE t SET n = 1",
        "ALTER TABLE t RENAME TO was",
        TABLE,
        "INSERT INTO t VALUES (1, 'of another', 1)",
    )
    (change,) = take_changes(events, 1)
    assert change.whole == {"id": 1, "big": large(), "n": 1}


def test_many_rows_of_a_transaction_are_read_together_in_order_and_in_bounded_memory(
    table: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.run(f"INSERT INTO t SELECT x, {LARGE} || x, 0 FROM generate_series(2, 5000) x")
    statements = []

    def counted(*args: Any, **settings: Any) -> Any:
        statements.append(args)
        return read_window(*args, **settings)

    monkeypatch.setattr(module, "read_window", counted)
    events = started(open_source())
    table.run("UPDATE t SET n = 1; INSERT INTO t VALUES (5001, 'x', 0)")
    tracemalloc.start()
    ids: list[int] = []
    positions: list[int] = []
    try:
        for event in events:
            if isinstance(event, Committed):
                break
            if isinstance(event, Change) and event.op is Op.UPDATE:
                assert event.whole is not None
                assert event.whole["big"] == large() + (str(event.whole["id"]) if ids else "")
                ids.append(event.whole["id"])
                assert event.position is not None
                positions.append(event.position["done"])
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ids == list(range(1, 5001))
    assert positions == list(range(1, 5001))
    assert len(statements) < 100
    assert peak_bytes < 20_000_000, "the values have 50 MB"


def test_rows_that_are_too_large_together_are_read_one_by_one(
    table: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_BYTES_MAX", 1)
    table.run(f"INSERT INTO t SELECT x, {LARGE} || x, 0 FROM generate_series(2, 20) x")
    events = started(open_source())
    # A second change of each row, and one that is missing.
    table.run("UPDATE t SET n = 1; UPDATE t SET n = 2; DELETE FROM t WHERE id = 20")
    found = [change for change in changes_of(take_transaction(events)) if change.op is Op.UPDATE]
    assert [change.whole and change.whole["id"] for change in found] == [*range(1, 20), None] * 2


def test_row_that_prints_its_key_in_another_way_is_followed_by_its_change(
    database: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READ_BYTES_MAX", 1)
    database.run(TABLE.replace("int4 PRIMARY", "numeric PRIMARY"), EXTERNAL)
    database.run(f"INSERT INTO t VALUES (1.5, {LARGE}, 0)")
    events = started(open_source())
    database.run("UPDATE t SET n = 1", "UPDATE t SET id = 1.50")
    update, _, create = take_changes(events, 3)
    assert update.whole is None
    assert create.whole == {"id": "1.50", "big": large(), "n": 1}


def test_rows_that_may_not_be_read_keep_the_placeholder_with_one_warning(
    table: Database, caplog: pytest.LogCaptureFixture
) -> None:
    user = f"{table.name}_user"
    table.run(
        f"CREATE ROLE {user} LOGIN REPLICATION",
        f"GRANT CREATE ON DATABASE {table.name} TO {user}",
        f"ALTER TABLE t OWNER TO {user}",
    )
    source = PostgresSource(table.name, psycopg.conninfo.make_conninfo(table.address, user=user))
    events = started(source)
    table.run(f"REVOKE SELECT ON t FROM {user}")
    found = []
    for number in (1, 2):
        table.run(f"UPDATE t SET n = {number}")
        found += take_changes(events, 1)
    source.close()
    assert [(change.after, change.whole) for change in found] == [
        ({"id": 1, "big": UNAVAILABLE, "n": number}, None) for number in (1, 2)
    ]
    warnings = [record.getMessage() for record in caplog.records if record.name == "headrace.cdc"]
    assert warnings == ["large values of table public.t cannot be read: InsufficientPrivilege"]


def test_source_restarted_at_any_event_reselects_the_following_ones(
    table: Database, open_source: OpenSource
) -> None:
    table.run(f"INSERT INTO t SELECT x, {LARGE}, 0 FROM generate_series(2, 4) x")
    source = open_source()
    events = started(source)
    table.run("UPDATE t SET n = 1", "UPDATE t SET n = 2 WHERE id > 2")
    taken = take_transaction(events) + take_transaction(events)
    source.close()
    for number, event in enumerate(taken[:-1]):
        source = open_source()
        assert (
            take_until(source.events(event.position), lambda event: event == taken[-1]) == taken[number + 1 :]
        )
        source.close()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server whose settings a test may change."""
    with PostgresServer(settings=LOGICAL) as server:
        yield server


def quiet(events: Iterator[Event | None], seconds: float = 1.0) -> None:
    """The source yields no change meanwhile."""
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        event = next(events)
        assert not isinstance(event, Change), event


def test_row_is_read_only_after_its_transaction_is_visible(own_server: PostgresServer) -> None:
    """A commit that waits for a standby is in the log, and nobody sees it."""
    address = own_server.create_database("shop")
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in (TABLE, EXTERNAL, f"INSERT INTO t VALUES (1, {LARGE}, 0)"):
            connection.execute(statement.encode())
        source = PostgresSource("shop", address)
        events = started(source)
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        connection.execute("SELECT pg_reload_conf()")
        time.sleep(0.5)  # until the server has the setting
        changing = threading.Thread(
            target=connection.execute,
            args=["UPDATE t SET big = repeat('abcdefghij', 1000); UPDATE t SET n = 1"],
        )
        changing.start()
        with psycopg.connect(address, autocommit=True) as other:
            try:
                found = take_changes(events, 1)
                quiet(events)
                assert other.execute("SELECT n FROM t").fetchone() == (0,)
            finally:
                other.execute("ALTER SYSTEM RESET synchronous_standby_names")
                other.execute("SELECT pg_reload_conf()")
                changing.join()
        found += take_changes(events, 1)
    assert found[1].after == {"id": 1, "big": UNAVAILABLE, "n": 1}
    assert found[1].whole == {"id": 1, "big": large("abcdefghij"), "n": 1}
    source.close()


def test_table_that_is_locked_is_waited_for(table: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    with psycopg.connect(table.address) as locking:
        table.run("UPDATE t SET n = 1")
        locking.execute("LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
        quiet(events)
        locking.rollback()
        (change,) = take_changes(events, 1)
    assert change.whole == {"id": 1, "big": large(), "n": 1}


def test_last_change_of_every_key_has_the_whole_row_under_load(
    table: Database, open_source: OpenSource
) -> None:
    table.run(f"INSERT INTO t SELECT x, {LARGE} || x, 0 FROM generate_series(2, 200) x")
    events = open_source().events(None)
    taken: list[Event] = list(take_snapshot(events))

    def write() -> None:
        with psycopg.connect(table.address) as connection:
            for step in range(300):
                key = step * 37 % 200 + 1
                connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [key])
                if step % 3 == 0:
                    connection.execute("UPDATE t SET big = %s WHERE id = %s", [large(f"{step:010d}"), key])
                    connection.execute("UPDATE t SET n = n + 1 WHERE id = %s", [key])
                if step % 5 == 0:
                    connection.execute("UPDATE t SET id = id + 1000 WHERE id = %s", [key])
                if step % 7 == 0:
                    connection.execute("DELETE FROM t WHERE id = %s", [key - 1])
                connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        if (event := next(events)) is not None:
            taken.append(event)
    writer.join()
    table.run("INSERT INTO t VALUES (-1, 'end', 0)")
    taken += take_until(
        events, lambda event: isinstance(event, Change) and (event.after or {}).get("id") == -1
    )
    whole = [
        change if change.whole is None else replace(change, after=change.whole)
        for change in changes_of(taken)
    ]
    assert sum(change.whole is not None for change in changes_of(taken)) > 100
    assert state_of(whole) == {
        ("public.t", row[0]): dict(zip(("id", "big", "n"), row, strict=True))
        for row in table.rows("SELECT id, big, n FROM t")
    }
