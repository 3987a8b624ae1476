"""What the `Table` sink does beyond the contract of all sinks, in both databases."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.table import Table
from tests.pipeline.sinks.databases import Batches, Database, Postgres, Sqlite, schema_of

SCHEMA = schema_of(id="string", n="long")
Open = Callable[..., Batches]


@pytest.fixture(params=["sqlite", "postgres", "postgres-staged"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Sqlite(tmp_path / "views.db")
    address = request.getfixturevalue("postgres").create_database(f"d{uuid.uuid4().hex[:12]}")
    return Postgres(address, driver_rows_max=0) if request.param == "postgres-staged" else Postgres(address)


@pytest.fixture
def open_table(database: Database) -> Iterator[Open]:
    """`open_table(key="id")`: the table `t`, by default for rows of `SCHEMA`."""
    with ExitStack() as stack:

        def open_table(schema: StructType = SCHEMA, **options: Any) -> Batches:
            return stack.enter_context(
                closing(Batches(Table("t", at=database.at, **database.options, **options), schema))
            )

        yield open_table


def rows(database: Database, columns: str = "id, n") -> list[tuple[Any, ...]]:
    return database.query(f"SELECT {columns} FROM t ORDER BY 1, 2")


def test_replace_leaves_the_rows_of_the_last_batch(open_table: Open, database: Database) -> None:
    table = open_table(mode="replace")
    table.write(("a", 1), ("b", 2))
    table.write(("b", 3))
    assert rows(database) == [("b", 3)]
    table.write()
    assert rows(database) == []


def test_replaced_rows_by_key_are_one_a_key(open_table: Open, database: Database) -> None:
    table = open_table(mode="replace", key="id")
    table.write(("a", 1), ("a", 2))
    assert rows(database) == [("a", 2)]


def test_append_with_a_key_rejects_existing_keys(open_table: Open, database: Database) -> None:
    table = open_table(mode="append", key="id")
    table.write(("a", 1))
    assert table.write(("a", 2), ("b", 2)) == 1
    assert rows(database) == [("a", 1), ("b", 2)]
    assert [dict(each.row) for each in table.rejected] == [{"id": "a", "n": 2}]


def test_op_is_a_column_like_others_where_rows_are_only_added(open_table: Open, database: Database) -> None:
    open_table(schema_of(op="string", id="string")).write(("d", "a"), ("c", "a"))
    assert rows(database, "op, id") == [("c", "a"), ("d", "a")]


def test_key_of_two_columns(open_table: Open, database: Database) -> None:
    table = open_table(schema_of(id="string", at="date", n="long", op="string"), key=["id", "at"])
    day, next_day = (datetime(2026, 11, each, tzinfo=UTC).date() for each in (15, 16))
    table.write(("a", day, 1, "+"), ("a", next_day, 1, "+"), ("b", day, 1, "+"))
    table.write(("a", day, 2, "+"), ("b", day, 1, "-"))
    assert rows(database, "id, n") == [("a", 1), ("a", 2)]


def test_table_of_keys_only_accepts_existing_keys(open_table: Open, database: Database) -> None:
    table = open_table(schema_of(id="string"), key="id")
    table.write(("a",))
    table.write(("a",), ("b",))
    assert database.query("SELECT id FROM t ORDER BY id") == [("a",), ("b",)]
    assert table.rejected == []


def test_only_declared_columns_are_stored(open_table: Open, database: Database) -> None:
    schema = schema_of(id="string", n="long", _offset="long", other="string")
    open_table(schema, key="id", columns=["_offset"]).write(("a", 1, 7, "x"))
    assert rows(database, "*") == [("a", 7)]


def test_names_may_need_quotes(database: Database) -> None:
    sink = Table('order "by" select', key="from to", at=database.at, **database.options)
    with closing(Batches(sink, schema_of(**{"from to": "string", "näme; --": "long"}))) as table:
        table.write(("a", 1))
        table.write(("a", 2))
    assert database.query('SELECT * FROM "order ""by"" select"') == [("a", 2)]


# Rejected rows


def test_null_key_is_rejected_alone(open_table: Open, database: Database) -> None:
    table = open_table(schema_of(id="string", part="string", n="long"), key=["id", "part"])
    assert table.write((None, "x", 1), ("a", None, 2), ("a", "x", 3)) == 1
    assert rows(database, "id, n") == [("a", 3)]
    assert [each.reason for each in table.rejected] == ["the key id is null", "the key part is null"]


def test_each_row_that_a_constraint_rejects_is_found(open_table: Open, database: Database) -> None:
    database.execute("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, n BIGINT NOT NULL CHECK (n < 100))")
    table = open_table(key="id")
    batch = [(f"k{i:03}", i % 50 or 100) for i in range(200)]
    assert table.write(*batch, ("null", None)) == 196
    assert len(rows(database)) == 196
    assert sorted(str(each.row["id"]) for each in table.rejected) == ["k000", "k050", "k100", "k150", "null"]
    assert table.write_again(*batch) == 0


def test_rejected_deletion_is_reported(open_table: Open, database: Database) -> None:
    schema = schema_of(id="string", n="long", op="string")
    open_table(schema, key="id").write(("a", 1, "+"), ("b", 1, "+"))
    database.execute("CREATE TABLE other (id TEXT REFERENCES t (id))", "INSERT INTO other VALUES ('a')")
    table = open_table(schema, key="id")
    assert table.write(("a", None, "-"), ("b", None, "-"), ("c", 1, "+")) == 2
    assert rows(database) == [("a", 1), ("c", 1)]
    assert [each.row["id"] for each in table.rejected] == ["a"]


def test_rejected_row_keeps_the_existing_one(open_table: Open, database: Database) -> None:
    database.execute("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, n BIGINT CHECK (n < 100))")
    table = open_table(key="id")
    table.write(("a", 1))
    table.write(("a", 100), ("b", 2))
    assert rows(database) == [("a", 1), ("b", 2)]


def test_rejected_row_has_the_columns_that_are_not_stored(open_table: Open) -> None:
    table = open_table(schema_of(id="string", n="long", _offset="long"), key="id")
    table.write((None, 1, 41))
    assert dict(table.rejected[0].row) == {"id": None, "n": 1, "_offset": 41}


# The table and the rows' schema


def test_new_columns_are_added_and_null_in_old_rows(open_table: Open, database: Database) -> None:
    open_table(key="id").write(("a", 1))
    open_table(schema_of(id="string", n="long", note="string"), key="id").write(("b", 2, "new"))
    assert rows(database, "id, n, note") == [("a", 1, None), ("b", 2, "new")]


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"key": "id"}, schema_of(id="string", n="string"), "column n of table t is"),
        ({"key": "id"}, schema_of(id="string", n="double"), "column n of table t is"),
        ({"key": "id"}, schema_of(id="string"), "the rows have no column n, and table t has"),
        ({"key": "n"}, SCHEMA, "table t has no primary key or unique index on n"),
        ({"key": ["id", "day"]}, schema_of(id="string", n="long", day="date"), "table t has no column day"),
    ],
)
def test_any_other_change_is_an_error(
    open_table: Open, options: dict[str, Any], schema: StructType, message: str
) -> None:
    open_table(key="id").write(("a", 1))
    with pytest.raises(BadSink, match=message) as error:
        open_table(schema, **options)
    assert error.value.hint


def test_existing_table_may_have_columns_with_defaults(open_table: Open, database: Database) -> None:
    database.execute("CREATE TABLE t (id VARCHAR(9) UNIQUE, n BIGINT, source VARCHAR(9) DEFAULT 'hand')")
    open_table(key="id").write(("a", 1))
    assert rows(database, "id, n, source") == [("a", 1, "hand")]


def test_two_columns_of_one_name_are_an_error(open_table: Open) -> None:
    with pytest.raises(BadSink, match="two columns have the same name"):
        open_table(StructType([*SCHEMA.fields, *SCHEMA.fields]))


# The table as state


def test_merged_columns_are_combined_with_the_existing_row(open_table: Open, database: Database) -> None:
    schema = schema_of(id="string", n="long", first="long", last="long", note="string")
    table = open_table(schema, key="id", merge={"n": "sum", "first": "min", "last": "max"})
    table.write(("a", 1, 5, 5, "x"), ("a", 2, 4, 4, "y"), ("b", 1, 1, 1, None))
    table.write(("a", 10, 9, 9, "z"), ("b", None, None, None, "w"))
    assert table.write_again(("a", 10, 9, 9, "z")) == 0
    assert rows(database, "*") == [("a", 13, 4, 9, "z"), ("b", 1, 1, 1, "w")]


def test_all_rows_of_a_rejected_sum_are_reported(open_table: Open, database: Database) -> None:
    database.execute("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, n BIGINT CHECK (n < 100))")
    table = open_table(key="id", merge={"n": "sum"})
    table.write(("a", 60), ("b", 1), ("a", 50))
    assert [each.row for each in table.rejected] == [{"id": "a", "n": 60}, {"id": "a", "n": 50}]
    assert rows(database) == [("b", 1)]


def test_sums_of_decimals_stay_exact(open_table: Open, database: Database) -> None:
    table = open_table(schema_of(id="string", spent="decimal(10,2)"), key="id", merge={"spent": "sum"})
    for _ in range(3):
        table.write(("a", Decimal("0.10")), ("a", Decimal("0.20")))
    ((spent,),) = database.query("SELECT spent FROM t")
    assert Decimal(str(spent)) == Decimal("0.9")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "sideways"}, "mode='sideways' is unknown"),
        ({"mode": "upsert"}, "without a key"),
        ({"key": "id", "merge": {"n": "product"}}, "can't be merged by 'product'"),
        ({"key": "id", "merge": {"id": "sum"}}, "can't be merged by 'sum'"),
        ({"mode": "append", "merge": {"n": "sum"}}, "merge needs mode upsert"),
    ],
)
def test_contradictory_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadSink, match=message):
        Table("t", **options)


@pytest.mark.parametrize(
    ("options", "schema", "message"),
    [
        ({"key": "user"}, SCHEMA, "no column user"),
        ({"order_by": "at"}, SCHEMA, "the rows have no column at"),
        ({"key": "id", "merge": {"note": "sum"}}, schema_of(id="string", note="string"), "can't be merged"),
        ({"key": "id", "merge": {"n": "sum"}}, schema_of(op="string", id="string", n="long"), "column op"),
    ],
)
def test_options_that_do_not_fit_the_rows_are_rejected(
    open_table: Open, options: dict[str, Any], schema: StructType, message: str
) -> None:
    with pytest.raises(BadSink, match=message):
        open_table(schema, **options)


def test_totals_are_not_added_to_totals() -> None:
    sink = Table("t", key="id", merge={"n": "sum"})
    with pytest.raises(BadSink, match="totals already"):
        sink.output_mode(aggregated=True, watermarked=False)
    assert sink.output_mode(aggregated=False, watermarked=False) == "append"


def test_output_mode_follows_the_table() -> None:
    assert Table("t", mode="replace").output_mode(aggregated=True, watermarked=False) == "complete"
    assert Table("t", key="id").output_mode(aggregated=True, watermarked=False) == "update"
    assert Table("t", key="id").output_mode(aggregated=True, watermarked=True) == "append"


def test_password_is_not_shown() -> None:
    sink = Table("t", at="postgresql://shop:secret@db.example:5432/shop")
    assert sink.target() == "table t in db.example:5432/shop"
    assert "secret" not in repr(sink)


@pytest.mark.parametrize("password", ["se@cret", "se/cret", "12/cret"])
def test_password_that_is_not_escaped_is_not_shown(password: str) -> None:
    table = Table("t", at=f"postgresql://shop:{password}@db.example/shop")
    assert "cret" not in repr(table)
    with pytest.raises(BadSink, match="can't be read") as rejected:
        table.target()
    assert "cret" not in str(rejected.value)
    assert rejected.value.__cause__ is None
    assert "%40" in rejected.value.hint
