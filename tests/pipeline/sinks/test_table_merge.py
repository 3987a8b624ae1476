"""The SQL of a merge: one statement if nothing is deleted or rejected, and which row of a key it takes.

`test_table_staging.py` compares what it leaves with what the driver leaves.
"""

from __future__ import annotations

import uuid
from contextlib import closing

import pyarrow as pa
import pytest

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_merge import StageMerge
from headrace.pipeline.sinks.table_postgres import PostgresStore
from headrace.pipeline.sinks.table_schema import columns_of
from headrace.pipeline.sinks.table_stage import StageLayout
from headrace.pipeline.sinks.table_store import TableShape
from headrace.pipeline.sinks.table_task import StagedPart, StagePlan, stage_rows
from headrace.testing.postgres import PostgresServer
from tests.pipeline.sinks.databases import Postgres, schema_of

SCHEMA = schema_of(id="string", n="long", op="string")


@pytest.fixture
def database(postgres: PostgresServer) -> Postgres:
    return Postgres(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))


def merge_of(*parts: StagedPart, key: tuple[str, ...] = ("id",)) -> StageMerge:
    shape = TableShape(
        job="job", name="t", columns=tuple(columns_of(SCHEMA)), key=key, mode="upsert", merge={}
    )
    return StageMerge(
        connection=None,  # type: ignore[arg-type]
        table='"t"',
        keys="k",
        stage="s",
        layout=StageLayout.of(shape, SCHEMA, None),
        parts=parts,
        types={"id": "text", "n": "bigint"},
        own_type=PostgresStore._staged_type,
        insert_statement=lambda names, rows: f"INSERT {names} {rows}",
    )


def test_one_statement_is_enough_unless_rows_are_deleted_or_marked() -> None:
    assert merge_of(StagedPart(attempt=1, rows=5))._is_one_statement
    assert not merge_of(StagedPart(attempt=1, rows=5, deletes=1))._is_one_statement
    assert not merge_of(StagedPart(attempt=1, rows=5, marked=1))._is_one_statement


def test_keys_are_compared_only_if_a_task_staged_several_chunks() -> None:
    assert (
        "DISTINCT" not in merge_of(StagedPart(attempt=1, chunks=1), StagedPart(attempt=2, chunks=1))._chosen()
    )
    assert "DISTINCT ON" in merge_of(StagedPart(attempt=1, chunks=2))._chosen()


def test_attempts_whose_responses_did_not_arrive_are_not_read() -> None:
    assert "WHERE attempt IN (1, 4)" in merge_of(StagedPart(attempt=1), StagedPart(attempt=4))._chosen()


def test_merge_reports_lost_and_written_rows(database: Postgres) -> None:
    shape = merge_of().layout.shape
    layout = merge_of().layout
    rows = pa.table({"id": ["a", "b"], "n": [1, 2], "op": ["c", "d"]}).to_batches()
    with closing(PostgresStore(database.at, shape)) as store:
        store.prepare()
        stage = store.create_stage(layout, Fence(job="job", checkpoint="c", batch_id=0))
        part = stage_rows(StagePlan(address=database.at, stage=stage, layout=layout), rows, attempt=1)
        with store.transaction():
            assert store.merge(layout, stage, [part]) == (2, [])
        part.rows += 1
        with pytest.raises(SinkUnavailable, match="lost"), store.transaction():
            store.merge(layout, stage, [part])
    assert database.query("SELECT id, n FROM t") == [("a", 1)]
