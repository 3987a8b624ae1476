from __future__ import annotations

from headrace.cdc.postgres.catalog import (
    all_types,
    captured_tables,
    is_captured,
    table_by_oid,
    table_by_path,
)
from tests.cdc.postgres.steps import Database


def test_patterns_match_schema_and_table() -> None:
    assert is_captured("public", "users", ["public.*"])
    assert is_captured("public", "users", ["x.*", "*.user?"])
    assert not is_captured("public", "users", ["public.Users", "private.*", "users"])


def test_tables_that_cannot_be_captured_are_left_out(database: Database) -> None:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY)",
        "CREATE UNLOGGED TABLE fast (id int4 PRIMARY KEY)",
        "CREATE TEMP TABLE short (id int4 PRIMARY KEY)",
        "CREATE VIEW v AS SELECT 1 AS id",
        "CREATE TABLE parts (id int4 PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10)",
    )
    assert [table.label for table in captured_tables(database.connection, ["*.*"])] == [
        "public.parts",
        "public.t",
    ]


def test_key_has_the_order_of_its_index_and_no_included_columns(database: Database) -> None:
    database.run("CREATE TABLE t (a int4, b int4, gone int4, c int4, PRIMARY KEY (c, a) INCLUDE (b))")
    database.run("ALTER TABLE t DROP COLUMN gone")
    [table] = captured_tables(database.connection, ["public.t"])
    assert table.key == ("c", "a")
    assert [(column.name, column.is_required) for column in table.columns] == [
        ("a", True),
        ("b", False),
        ("c", True),
    ]
    assert table_by_oid(database.connection, table.oid) == table
    assert table_by_path(database.connection, ("public", "t")) == table


def test_dropped_table_is_unknown(database: Database) -> None:
    assert table_by_path(database.connection, ("public", "t")) is None
    assert table_by_oid(database.connection, 1) is None


def test_vectors_of_the_catalog_are_no_arrays(database: Database) -> None:
    types = {info.name: info for info in all_types(database.connection).values()}
    assert types["_int4"].item_oid == types["int4"].oid
    assert types["int2vector"].item_oid == 0
    assert types["_box"].delimiter == ";"
