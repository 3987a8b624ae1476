from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Iterator

import psycopg
import pytest

from headrace.cdc.change import UNAVAILABLE, Change, Committed, Event, Op
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres.replication import AHEAD_BYTES
from headrace.cdc.postgres.source import PostgresSource
from headrace.cdc.source import ChangeSource
from tests.cdc.postgres.steps import (
    WAIT_S,
    Database,
    changes_of,
    end_of,
    idle,
    state_of,
    take_changes,
    take_snapshot,
    take_transaction,
    take_until,
)

OpenSource = Callable[..., PostgresSource]
Summary = list[tuple[Op, object, object]]


@pytest.fixture
def users(database: Database) -> Database:
    database.run("CREATE TABLE users (id int4 PRIMARY KEY, name text)", "INSERT INTO users VALUES (1, 'ada')")
    return database


def started(source: PostgresSource) -> Iterator[Event | None]:
    events = source.events(None)
    take_snapshot(events)
    return events


def summary(changes: list[Change]) -> Summary:
    return [(change.op, change.before, change.after) for change in changes]


def test_source_satisfies_the_contract(users: Database, open_source: OpenSource) -> None:
    source: ChangeSource = open_source()
    assert source.check() == ["public.users"]


def test_changes_follow_in_commit_order_with_their_transactions(
    users: Database, open_source: OpenSource
) -> None:
    events = started(open_source())
    users.run(
        "INSERT INTO users VALUES (2, 'bob')",
        "UPDATE users SET name = 'eve' WHERE id = 2",
        "DELETE FROM users",
    )
    taken = [event for _ in range(3) for event in take_transaction(events)]
    assert summary(changes_of(taken)) == [
        (Op.CREATE, None, {"id": 2, "name": "bob"}),
        (Op.UPDATE, None, {"id": 2, "name": "eve"}),
        (Op.DELETE, {"id": 1}, None),
        (Op.DELETE, {"id": 2}, None),
    ]
    ends = [event.transaction for event in taken if isinstance(event, Committed)]
    assert len(set(ends)) == 3
    change = changes_of(taken)[0]
    assert change.transaction == ends[0] == str(change.source["txId"])
    assert {name: change.source[name] for name in ("db", "schema", "table")} == {
        "db": users.name,
        "schema": "public",
        "table": "users",
    }


def test_source_restarted_at_any_event_yields_exactly_the_following_ones(
    users: Database, open_source: OpenSource
) -> None:
    first = open_source()
    events = first.events(None)
    position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    users.run(
        "INSERT INTO users SELECT x, 'x' FROM generate_series(2, 4) x",
        "UPDATE users SET id = id + 10 WHERE id > 2; TRUNCATE users; INSERT INTO users VALUES (7, 'y')",
        "DELETE FROM users",
    )
    whole = [event for _ in range(3) for event in take_transaction(events)]
    first.close()
    assert len(whole) == 3 + 1 + 4 + 1 + 1 + 1 + 1 + 1
    for done in range(len(whole)):
        source = open_source()
        events = source.events(whole[done - 1].position if done else position)
        left = iter(range(len(whole) - done - 1, -1, -1))
        assert take_until(events, lambda event, left=left: next(left) == 0) == whole[done:]  # type: ignore[misc]
        source.close()


def test_key_change_is_a_delete_and_a_create(users: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    users.run("UPDATE users SET id = 5", "ALTER TABLE users REPLICA IDENTITY FULL", "UPDATE users SET id = 6")
    assert summary(take_changes(events, 4)) == [
        (Op.DELETE, {"id": 1}, None),
        (Op.CREATE, None, {"id": 5, "name": "ada"}),
        (Op.DELETE, {"id": 5, "name": "ada"}, None),
        (Op.CREATE, None, {"id": 6, "name": "ada"}),
    ]


def test_unchanged_large_value_is_unavailable_unless_the_old_row_has_it(
    users: Database, open_source: OpenSource
) -> None:
    large = "".join(chr(97 + number * 7919 % 26) for number in range(20_000))
    users.run(
        "ALTER TABLE users ALTER COLUMN name SET STORAGE EXTERNAL",
        "ALTER TABLE users ADD COLUMN n int4",
        f"UPDATE users SET name = '{large}'",
    )
    events = started(open_source())
    users.run(
        "UPDATE users SET n = 1",
        "UPDATE users SET id = 2",
        "ALTER TABLE users REPLICA IDENTITY FULL",
        "UPDATE users SET n = 2",
    )
    update, _, create, full = take_changes(events, 4)
    assert update.after == {"id": 1, "name": UNAVAILABLE, "n": 1}
    assert create.after == {"id": 2, "name": UNAVAILABLE, "n": 1}
    assert full.after == {"id": 2, "name": large, "n": 2}
    assert full.before == {"id": 2, "name": large, "n": 1}


def test_truncate_is_one_change_for_each_table(users: Database, open_source: OpenSource) -> None:
    users.run("CREATE TABLE other (id int4 PRIMARY KEY)")
    events = started(open_source())
    users.run("TRUNCATE users, other")
    found = changes_of(take_transaction(events))
    assert sorted(change.table.name for change in found) == ["public.other", "public.users"]
    assert {(change.op, change.before, change.after) for change in found} == {(Op.TRUNCATE, None, None)}


def test_changes_before_and_after_ddl_have_the_columns_of_their_time(
    users: Database, open_source: OpenSource
) -> None:
    events = started(open_source())
    users.run(
        "INSERT INTO users VALUES (2, 'a')",
        "ALTER TABLE users ADD COLUMN age int4",
        "INSERT INTO users VALUES (3, 'b', 30)",
        "ALTER TABLE users RENAME COLUMN name TO title",
        "INSERT INTO users VALUES (4, 'c', 40)",
        "ALTER TABLE users ALTER COLUMN age TYPE text",
        "INSERT INTO users VALUES (5, 'd', '50')",
        "ALTER TABLE users DROP COLUMN title",
        "INSERT INTO users VALUES (6, '60')",
        "CREATE TYPE mood AS ENUM ('sad')",
        "ALTER TABLE users ADD COLUMN mood mood",
        "INSERT INTO users VALUES (7, '70', 'sad')",
    )
    found = take_changes(events, 6)
    assert [change.after for change in found] == [
        {"id": 2, "name": "a"},
        {"id": 3, "name": "b", "age": 30},
        {"id": 4, "title": "c", "age": 40},
        {"id": 5, "title": "d", "age": "50"},
        {"id": 6, "age": "60"},
        {"id": 7, "age": "70", "mood": "sad"},
    ]
    assert [column.type for column in found[1].table.columns] == ["int32", "string", "int32"]
    assert [column.type for column in found[3].table.columns] == ["int32", "string", "string"]
    assert found[5].table.columns[2].semantic == "io.debezium.data.Enum"


def test_large_transaction_is_not_collected(users: Database, open_source: OpenSource) -> None:
    events = started(open_source())
    users.run("INSERT INTO users SELECT x, repeat('x', 100) FROM generate_series(2, 80001) x")
    take_changes(events, 1)
    tracemalloc.start()
    try:
        count = 1
        for event in events:
            count += isinstance(event, Change)
            if isinstance(event, Committed):
                break
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 80_000
    assert peak_bytes < 2 * AHEAD_BYTES


def test_added_table_is_captured_from_the_next_start_on_with_a_snapshot(
    users: Database, open_source: OpenSource
) -> None:
    source = open_source()
    events = source.events(None)
    position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    source.close()
    users.run(
        "CREATE TABLE orders (id int4 PRIMARY KEY)",
        "INSERT INTO orders SELECT generate_series(1, 3)",
        "INSERT INTO users VALUES (2, 'bob')",
    )
    again = open_source()
    taken = changes_of(take_changes(again.events(position), 4))
    assert state_of(taken) == {
        ("public.users", 2): {"id": 2, "name": "bob"},
        **{("public.orders", key): {"id": key} for key in (1, 2, 3)},
    }
    assert [one.table for one in again.progress()] == ["public.orders"]


def test_names_with_quotes_dots_and_unicode_are_captured(database: Database, open_source: OpenSource) -> None:
    database.run(
        'CREATE SCHEMA "my.schema"',
        'CREATE TABLE "my.schema"."Ta""ble é%s" ("the ""key"".%s" text PRIMARY KEY, "ünï" int4)',
        """INSERT INTO "my.schema"."Ta""ble é%s" VALUES ('it''s', 1)""",
    )
    source = open_source("my.schema.*")
    events = source.events(None)
    [read] = take_snapshot(events)
    assert read.table.path == ("my.schema", 'Ta"ble é%s')
    assert read.after == {'the "key".%s': "it's", "ünï": 1}
    database.run('UPDATE "my.schema"."Ta""ble é%s" SET "ünï" = 2')
    [change] = take_changes(events, 1)
    assert change.after == {'the "key".%s': "it's", "ünï": 2}
    assert change.table == read.table
    source.snapshot(['my.schema.Ta"ble é%s'])
    [again] = take_changes(events, 1)
    assert (again.op, again.after) == (Op.READ, change.after)


def test_table_renamed_out_of_the_patterns_has_no_more_changes(
    users: Database, open_source: OpenSource
) -> None:
    users.run("CREATE TABLE other (id int4 PRIMARY KEY)")
    events = started(open_source("public.users", "public.other"))
    users.run(
        "ALTER TABLE users RENAME TO people",
        "INSERT INTO people VALUES (2, 'bob')",
        "INSERT INTO other VALUES (1)",
    )
    [change] = take_changes(events, 1)
    assert change.table.name == "public.other"


def test_removed_source_leaves_nothing_in_the_database(users: Database, open_source: OpenSource) -> None:
    source = open_source()
    started(source)
    source.remove()
    assert users.value("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == 0
    assert users.value("SELECT count(*) FROM pg_publication") == 0
    source.remove()


def test_lag_is_what_was_not_confirmed(users: Database, open_source: OpenSource) -> None:
    source = open_source()
    assert source.lag_bytes() is None
    events = started(source)
    users.run("INSERT INTO users SELECT x, repeat('x', 100) FROM generate_series(2, 1000) x")
    end = end_of(take_transaction(events))
    lag_bytes = source.lag_bytes()
    assert lag_bytes is not None
    assert lag_bytes > 100_000
    source.confirm(end.position)
    idle(events, 3)
    assert (source.lag_bytes() or 0) < lag_bytes - 100_000


def test_position_before_what_was_confirmed_is_rejected(users: Database, open_source: OpenSource) -> None:
    source = open_source()
    events = source.events(None)
    old = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    users.run("INSERT INTO users VALUES (2, 'bob')")
    source.confirm(end_of(take_transaction(events)).position)
    idle(events, 3)
    source.close()
    with pytest.raises(BadCapture, match="changes between them are discarded"):
        next(open_source().events(old))


def test_slot_dropped_between_two_runs_is_an_error_with_a_remedy(
    users: Database, open_source: OpenSource
) -> None:
    source = open_source()
    events = source.events(None)
    position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    source.remove()
    with pytest.raises(BadCapture, match=r"was dropped.*add it again"):
        next(open_source().events(position))


def test_second_runner_of_a_capture_sees_who_has_the_slot(
    users: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cdc.postgres.live.START_TIMEOUT_S", 0.2)
    first = open_source()
    events = first.events(None)
    position = end_of(take_until(events, lambda event: isinstance(event, Committed))).position
    idle(events)
    with pytest.raises(SourceUnavailable, match="in use by another process"):
        for _ in open_source().events(position):
            pass
    with pytest.raises(SourceUnavailable, match="in use by another process"):
        next(open_source().events(None))


def test_run_once_ends_after_everything_that_was_committed_before(
    users: Database, open_source: OpenSource
) -> None:
    source = open_source()
    first = [event for event in source.events(None, once=True) if event is not None]
    assert summary(changes_of(first)) == [(Op.READ, None, {"id": 1, "name": "ada"})]
    users.run(
        "INSERT INTO users VALUES (2, 'bob')",
        "CREATE TABLE late (id int4 PRIMARY KEY)",
        "INSERT INTO late VALUES (1)",
    )
    second = [event for event in source.events(end_of(first).position, once=True) if event is not None]
    assert sorted((change.op, change.table.name) for change in changes_of(second)) == [
        (Op.CREATE, "public.users"),
        (Op.READ, "public.late"),
    ]
    source.confirm(end_of(second).position)
    source.close()
    third = source.events(end_of(second).position, once=True)
    assert changes_of([event for event in third if event is not None]) == []


def test_confirmation_after_the_end_of_events_reaches_the_server(
    users: Database, open_source: OpenSource
) -> None:
    source = open_source()
    first = [event for event in source.events(None, once=True) if event is not None]
    users.run("INSERT INTO users SELECT x, repeat('x', 100) FROM generate_series(2, 1000) x")
    second = [event for event in source.events(end_of(first).position, once=True) if event is not None]
    lag_bytes = source.lag_bytes() or 0
    source.confirm(end_of(second).position)
    source.close()
    deadline = time.monotonic() + WAIT_S
    while (source.lag_bytes() or 0) > lag_bytes - 100_000:
        assert time.monotonic() < deadline


def test_table_created_while_the_stream_runs_is_read_and_followed(
    users: Database, open_source: OpenSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.cdc.postgres.live.TABLES_INTERVAL_S", 0.1)
    events = started(open_source())
    users.run(
        "CREATE TABLE keyless (id int4)",
        "CREATE TABLE late (id int4 PRIMARY KEY)",
        "INSERT INTO late VALUES (1)",
    )
    with psycopg.connect(users.address) as open_transaction:
        # It wrote before the table was published, and commits after: no message of the stream has its row.
        open_transaction.execute("INSERT INTO late VALUES (2)")
        published = "SELECT count(*) FROM pg_publication_tables WHERE tablename = 'late'"
        while users.value(published) == 0:
            next(events)
        idle(events, 3)
        open_transaction.commit()
    users.run("INSERT INTO late VALUES (3)")
    found: list[Event] = []
    while len(state_of(changes_of(found))) < 3:
        found += take_until(events, lambda event: isinstance(event, Change))
    assert state_of(changes_of(found)) == {("public.late", key): {"id": key} for key in (1, 2, 3)}
