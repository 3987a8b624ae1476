"""Batches that tasks stage in PostgreSQL leave the same rows and dead letters as those of the driver, each once."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import table_task
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.table import Table
from headrace.pipeline.sinks.table_staging import StagingTableWriter
from headrace.pipeline.sinks.table_task import StagedPart, StagePlan, stage_rows
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from tests.pipeline.sinks.databases import Batches, Postgres, schema_of

STAGED = 0
"""For `driver_rows_max`."""

BY_DRIVER = 10**9

STAGES = "SELECT count(*) FROM pg_class WHERE relname LIKE 'headrace_stage_%' AND relpersistence = 'u'"
CHANGES = schema_of(id="string", n="integer", note="string", op="string", at="double")
MERGED = schema_of(id="string", n="integer", least="double", most="string", is_any="boolean", raw="binary")
HOW = {"n": "sum", "least": "min", "most": "max", "is_any": "max", "raw": "min"}


@pytest.fixture
def database(postgres: PostgresServer) -> Postgres:
    return Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))


def fence(batch_id: int) -> Fence:
    return Fence(job="job", checkpoint="c", batch_id=batch_id)


def reject_none(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(f"nothing should be rejected, and {rows} was")


def letters(table: Batches) -> list[tuple[str, str]]:
    found = [(repr(sorted(each.row.items())), each.reason) for each in table.rejected]
    table.rejected.clear()
    return sorted(found)


texts = st.one_of(st.none(), st.text("aäB\0", max_size=2))
numbers = st.one_of(st.none(), st.integers(-5, 60))
floats = st.one_of(st.none(), st.sampled_from([-1.0, 0.5, 7.0, float("nan"), float("inf")]))
keys = st.one_of(st.none(), st.sampled_from(["a", "b", "Ä", "nul\0", "too long a key"]))
operations = st.sampled_from([None, "c", "d", "-", "+"])
changes = st.lists(st.tuples(keys, numbers, texts, operations, floats), max_size=25)
increments = st.lists(
    st.tuples(
        keys,
        numbers,
        floats,
        st.one_of(st.none(), st.text("aäB", max_size=2)),
        st.booleans(),
        st.binary(max_size=1),
    ),
    max_size=25,
)


@pytest.fixture
def both(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Postgres, Postgres]]:
    """Two databases: one written by the driver, and one staged in chunks so small that keys are in several of them."""
    monkeypatch.setattr(table_task, "CHUNK_BYTES", 100)
    monkeypatch.setattr(table_task, "KEPT_BYTES_MAX", 150)
    name = uuid.uuid4().hex[:12]
    databases = [Postgres(postgres.create_database(f"{each}{name}")) for each in ("driver", "staged")]

    def emptied(*statements: str) -> tuple[Postgres, Postgres]:
        for each in databases:
            each.execute("DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS headrace_fences", *statements)
        return databases[0], databases[1]

    return emptied


def write_both(
    found: tuple[Postgres, Postgres], schema: Any, batches: Sequence[Sequence[Any]], **options: Any
) -> None:
    tables = [
        Batches(
            Table("t", key="id", at=each.at, driver_rows_max=rows_max, **options), schema, rows_per_chunk=3
        )
        for each, rows_max in zip(found, (BY_DRIVER, STAGED), strict=True)
    ]
    try:
        for batch in batches:
            by_driver, staged = (table.write(*batch) for table in tables)
            assert staged == by_driver
            assert letters(tables[1]) == letters(tables[0])
            query = 'SELECT * FROM t ORDER BY id COLLATE "C"'
            assert repr(found[1].query(query)) == repr(found[0].query(query))
        assert found[1].query(STAGES) == [(0,)]
    finally:
        for table in tables:
            table.close()


@pytest.mark.timeout(600)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(changes, min_size=1, max_size=3))
def test_staged_changes_leave_the_rows_and_letters_that_the_driver_leaves(
    both: Callable[..., tuple[Postgres, Postgres]], batches: list[list[Any]]
) -> None:
    table = "CREATE TABLE t (id varchar(9) PRIMARY KEY, n int CHECK (n < 50), note varchar(9))"
    write_both(both(table), CHANGES, batches, order_by="at", columns=["n", "note"])


@pytest.mark.timeout(600)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(increments, min_size=1, max_size=3))
def test_staged_increments_leave_the_rows_and_letters_that_the_driver_leaves(
    both: Callable[..., tuple[Postgres, Postgres]], batches: list[list[Any]]
) -> None:
    table = (
        "CREATE TABLE t (id varchar(9) PRIMARY KEY, n bigint CHECK (n < 90), least double precision, most text, "
        "is_any boolean, raw bytea)"
    )
    write_both(both(table), MERGED, batches, merge=HOW)


def test_values_are_cast_to_the_types_of_an_existing_table(database: Postgres) -> None:
    """As COPY reads their text: nothing is cut or rounded."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('good', 'bad')",
        "CREATE TABLE t (id uuid PRIMARY KEY, mood mood, short varchar(3), exact numeric, wide float8, doc json)",
    )
    schema = schema_of(id="string", mood="string", short="string", exact="double", wide="float", doc="string")
    ids = [str(uuid.uuid4()) for _ in range(4)]
    with closing(Batches(Table("t", key="id", at=database.at, driver_rows_max=STAGED), schema)) as table:
        written = table.write(
            (ids[0], "good", "abc", 0.1234567890123456, 1.1, '{"a": 1}'),
            (ids[1], "ugly", "abc", 1.0, 1.0, "{}"),
            (ids[2], "bad", "abcd", 1.0, 1.0, "{}"),
            (ids[3], "bad", "abc", 1.0, 1.0, "{"),
            ("no uuid", "bad", "abc", 1.0, 1.0, "{}"),
        )
    assert written == 1
    assert database.query("SELECT id::text, mood::text, short, exact::text, wide, doc::text FROM t") == [
        (ids[0], "good", "abc", "0.1234567890123456", 1.1, '{"a": 1}')
    ]
    assert sorted(each.row["id"] for each in table.rejected) == sorted([*ids[1:], "no uuid"])


def test_rows_of_a_task_that_ran_twice_are_merged_once(database: Postgres) -> None:
    """As with speculation, or when Spark repeats a task whose response was lost."""
    sink = Table("t", at=database.at, driver_rows_max=STAGED)
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]}).to_batches()
    with closing(sink.open("job", schema_of(id="string", n="long"))) as writer:
        assert isinstance(writer, StagingTableWriter)

        def stage(plan: StagePlan) -> list[StagedPart]:
            stage_rows(plan, rows, attempt=1)
            return [stage_rows(plan, rows, attempt=2)]

        assert writer._write_staged(fence(0), reject_none, stage) == 2
    assert database.query("SELECT id, n FROM t ORDER BY id") == [("a", 1), ("b", 2)]


def test_server_that_crashes_between_staging_and_merge_loses_no_row() -> None:
    """It empties unlogged tables; the batch is written again."""
    require_postgres()
    with PostgresServer() as server:
        sink = Table("t", key="id", at=server.address, driver_rows_max=STAGED)
        rows = pa.table({"id": ["a", "b"], "n": [1, 2]}).to_batches()
        with closing(sink.open("job", schema_of(id="string", n="long"))) as writer:
            assert isinstance(writer, StagingTableWriter)

            def stage_and_crash(plan: StagePlan) -> list[StagedPart]:
                part = stage_rows(plan, rows, attempt=1)
                server.kill()
                server.start()
                return [part]

            for _ in range(2):  # the first finds its connection closed, the second the stage empty
                with pytest.raises(SinkUnavailable):
                    writer._write_staged(fence(0), reject_none, stage_and_crash)
            assert writer.apply(rows, fence(0), reject_none) == 2
        database = Postgres(server.address)
        assert database.query("SELECT id, n FROM t ORDER BY id") == [("a", 1), ("b", 2)]
        assert database.query(STAGES) == [(0,)]


def test_stages_that_a_killed_run_left_are_dropped_at_the_next_start(database: Postgres) -> None:
    sink = Table("t", key="id", at=database.at, driver_rows_max=STAGED)
    schema = schema_of(id="string", n="long")
    with closing(sink.open("job", schema)) as writer:
        assert isinstance(writer, StagingTableWriter)
        for batch_id in range(2):
            writer._postgres.create_stage(writer._layout, fence(batch_id))
            assert database.query(STAGES) == [(1,)], "the one of the batch before is dropped"
    sink.open("another job", schema).close()
    assert database.query(STAGES) == [(1,)]
    sink.open("job", schema).close()
    assert database.query(STAGES) == [(0,)]


def test_last_row_of_a_key_wins_across_partitions(spark: SparkSession, database: Postgres) -> None:
    rows = spark.range(0, 10_000, numPartitions=5).selectExpr("pmod(id, 700) AS id", "id AS n")
    sink = Table("t", key="id", at=database.at, driver_rows_max=STAGED)
    with closing(sink.open("job", rows.schema)) as writer:
        assert writer.write(sink.prepare(rows), fence(0), reject_none) == 700
        assert writer.write(sink.prepare(rows), fence(0), reject_none) == 0
    assert dict(database.query("SELECT id, n FROM t")) == {n % 700: n for n in range(10_000)}


def test_rows_of_all_partitions_are_appended(spark: SparkSession, database: Postgres) -> None:
    rows = spark.range(0, 10_000, numPartitions=5)
    sink = Table("t", at=database.at, driver_rows_max=STAGED)
    with closing(sink.open("job", rows.schema)) as writer:
        assert writer.write(sink.prepare(rows), fence(0), reject_none) == 10_000
    assert database.query("SELECT count(*), sum(id) FROM t") == [(10_000, sum(range(10_000)))]


def test_row_that_fails_in_a_task_leaves_no_stage(spark: SparkSession, database: Postgres) -> None:
    rows = spark.range(0, 100, numPartitions=4)
    failing = rows.withColumn("n", F.when(F.col("id") == 99, F.raise_error(F.lit("lost"))).otherwise(1))
    failing = failing.select("id", F.col("n").cast("bigint").alias("n"))
    sink = Table("t", key="id", at=database.at, driver_rows_max=STAGED)
    with closing(sink.open("job", failing.schema)) as writer:
        with pytest.raises(Exception, match="lost"):
            writer.write(sink.prepare(failing), fence(0), reject_none)
        assert writer.applied() is None
    assert database.query("SELECT count(*) FROM t") == [(0,)]
    assert database.query(STAGES) == [(0,)]


def test_error_of_the_database_in_a_task_is_raised_as_one_of_the_sink(
    spark: SparkSession, database: Postgres, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its kind, and without the password."""
    secret = database.at.replace("headrace@", "headrace:hidden-word@")
    sink = Table("t", key="id", at=secret, driver_rows_max=STAGED)
    rows = spark.range(0, 100, numPartitions=2)
    with closing(sink.open("job", rows.schema)) as writer:
        assert isinstance(writer, StagingTableWriter)
        create = writer._postgres.create_stage

        def create_and_drop(*arguments: Any) -> str:
            name = create(*arguments)
            database.execute(f"DROP TABLE {name}")
            return name

        writer._postgres.create_stage = create_and_drop  # type: ignore[method-assign, assignment]
        with pytest.raises(BadSink, match="does not exist") as failed:
            writer.write(sink.prepare(rows), fence(0), reject_none)
    shown = capfd.readouterr()
    assert "hidden-word" not in f"{failed.value}{failed.value.hint}{shown.out}{shown.err}"


def test_plan_of_a_staged_batch_does_not_show_the_password(spark: SparkSession) -> None:
    from functools import partial

    from headrace.pipeline.sinks.table_stage import StageLayout
    from headrace.pipeline.sinks.table_store import TableShape

    shape = TableShape(job="job", name="t", columns=(), key=(), mode="append", merge={})
    plan = StagePlan(
        address="postgresql://shop:hidden-word@db.example/shop",
        stage="s",
        layout=StageLayout(shape=shape, op=None, order=None),
    )
    task = partial(table_task.stage_part, plan)
    responses = spark.range(1).mapInArrow(task, table_task.RESPONSE_COLUMNS)
    texts = [
        repr(plan),
        repr(task),
        responses._jdf.queryExecution().toString(),
        responses._jdf.queryExecution().optimizedPlan().toJSON(),
    ]
    assert "hidden-word" not in "".join(texts)
