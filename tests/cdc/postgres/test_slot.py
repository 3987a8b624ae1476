from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.catalog import captured_tables
from headrace.cdc.postgres.slot import (
    NAME_BYTES_MAX,
    find_slot,
    object_name,
    publish,
    published_tables,
    request_snapshot,
    requested_snapshot,
)
from headrace.cdc.postgres.source import PostgresSource
from headrace.testing.postgres import PostgresServer
from tests.cdc.postgres.steps import Database, take_snapshot


def test_name_of_the_slot_is_that_of_the_capture() -> None:
    assert object_name("shop_2") == "headrace_shop_2"


def test_names_that_postgresql_does_not_accept_stay_distinct() -> None:
    captures = ["shop-eu", "shop.eu", "shop_eu", "Shop_eu", "é" * 60, "é" * 61, "x" * 80, "x" * 81]
    names = [object_name(capture) for capture in captures]
    assert len(set(names)) == len(captures)
    for name in names:
        assert name.startswith("headrace_")
        assert len(name.encode()) <= NAME_BYTES_MAX
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_")


def test_publication_holds_exactly_the_captured_tables(database: Database) -> None:
    database.run("CREATE TABLE a (id int4 PRIMARY KEY)", "CREATE TABLE b (id int4 PRIMARY KEY)")
    a, b = captured_tables(database.connection, ["*.*"])
    assert published_tables(database.connection, "p") is None
    assert publish(database.connection, "p", [a]) == [("public", "a")]
    assert publish(database.connection, "p", [a, b]) == [("public", "b")]
    assert publish(database.connection, "p", [b]) == []
    assert published_tables(database.connection, "p") == {("public", "b")}


def test_requested_snapshot_is_kept_until_it_is_cleared(database: Database) -> None:
    database.run("CREATE PUBLICATION p")
    assert requested_snapshot(database.connection, "p") == []
    request_snapshot(database.connection, "p", [("public", 'it\'s "t"')])
    assert requested_snapshot(database.connection, "p") == [("public", 'it\'s "t"')]
    request_snapshot(database.connection, "p", [])
    assert requested_snapshot(database.connection, "p") == []


def test_comment_of_a_person_is_no_request(database: Database) -> None:
    database.run("CREATE PUBLICATION p", "COMMENT ON PUBLICATION p IS 'mine'")
    assert requested_snapshot(database.connection, "p") == []


def test_slot_of_another_database_is_not_taken_over(
    database: Database, open_source: Callable[..., PostgresSource], logical_postgres: PostgresServer
) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    take_snapshot(open_source().events(None))
    other = logical_postgres.create_database(f"{database.name}_other")
    database_name = database.name
    source = PostgresSource(database_name, other, ["information_schema.none"])
    with pytest.raises(BadCapture, match="no table"):
        source.check()
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
    with pytest.raises(BadCapture, match=f"belongs to database {database_name}"):
        PostgresSource(database_name, other).check()
    slot = find_slot(database.connection, object_name(database_name))
    assert slot is not None
    assert slot.database == database_name
