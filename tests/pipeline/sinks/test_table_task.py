"""What a task stages: chunks of bounded size, one row a key, and which rows it can't stage."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import table_task
from headrace.pipeline.sinks.table_postgres import PostgresStore
from headrace.pipeline.sinks.table_schema import columns_of
from headrace.pipeline.sinks.table_stage import REASON_IN_ROWS, StageLayout, unpacked
from headrace.pipeline.sinks.table_store import TableShape
from headrace.pipeline.sinks.table_task import StagedPart, StagePlan, stage_rows
from headrace.plan_names import FAILED_ROW
from headrace.testing.postgres import PostgresServer
from tests.pipeline.sinks.databases import schema_of

SCHEMA = schema_of(id="string", n="long")


class Staging:
    """A staging table of its own for each test."""

    def __init__(self, address: str) -> None:
        self.address = address

    def plan(self, schema: StructType = SCHEMA, *, key: tuple[str, ...] = ("id",)) -> StagePlan:
        shape = TableShape(
            job="job", name="t", columns=tuple(columns_of(schema)), key=key, mode="upsert", merge={}
        )
        layout = StageLayout.of(shape, schema, None)
        with closing(PostgresStore(self.address, shape)) as store:
            store.prepare()
            stage = store.create_stage(layout, Fence(job="job", checkpoint="c", batch_id=0))
        return StagePlan(address=self.address, stage=stage, layout=layout)

    def rows(self, plan: StagePlan) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.address) as connection:
            found = connection.execute(f"SELECT c0, c1, rank FROM {plan.stage} ORDER BY rank".encode())
            return found.fetchall()


@pytest.fixture
def staging(postgres: PostgresServer) -> Staging:
    return Staging(postgres.create_database(f"d{uuid.uuid4().hex[:12]}"))


def batches(*rows: tuple[Any, ...]) -> Iterator[pa.RecordBatch]:
    for id, n in rows:
        yield pa.RecordBatch.from_pydict({"id": pa.array([id], pa.string()), "n": pa.array([n], pa.int64())})


def test_last_row_of_a_key_is_staged_once(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_task, "CHUNK_BYTES", 1)
    plan = staging.plan()
    part = stage_rows(plan, batches(("a", 1), ("b", 2), ("a", 3)), attempt=7)
    assert (part.rows, part.chunks) == (2, 1)
    assert staging.rows(plan) == [("b", 2, 1), ("a", 3, 2)]


def test_rows_that_exceed_the_memory_are_staged_in_several_chunks(
    staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_task, "CHUNK_BYTES", 1)
    monkeypatch.setattr(table_task, "KEPT_BYTES_MAX", 1)
    plan = staging.plan()
    part = stage_rows(plan, batches(("a", 1), ("a", 2)), attempt=7)
    assert (part.rows, part.chunks) == (2, 2)


def test_task_without_rows_does_not_connect() -> None:
    shape = TableShape(job="job", name="t", columns=(), key=(), mode="append", merge={})
    plan = StagePlan(
        address="postgresql://127.0.0.1:1/shop",
        stage="s",
        layout=StageLayout(shape=shape, op=None, order=None),
    )
    assert stage_rows(plan, [], attempt=7) == StagedPart(attempt=7)


def test_row_that_can_not_be_staged_is_marked_or_sent_without_its_key(staging: Staging) -> None:
    schema = schema_of(id="string", note="string")
    plan = staging.plan(schema)
    rows = pa.table({"id": ["a", None, "c\0"], "note": ["x\0", "y", "z"]})
    part = stage_rows(plan, rows.to_batches(), attempt=7)
    assert (part.rows, part.marked) == (1, 1)
    assert staging.rows(plan) == [("a", None, 0)]
    assert part.rejected is not None
    sent = unpacked(part.rejected)
    assert sent["id"].to_pylist() == [None, "c\0"]
    assert sent[REASON_IN_ROWS].to_pylist()[0] == "the key id is null"


def test_row_on_which_an_expression_failed_is_sent(staging: Staging) -> None:
    plan = staging.plan()
    failed = '{"row": {"id": "b"}, "reason": "no number"}'
    rows = pa.table({"id": ["a", "b"], "n": [1, None], FAILED_ROW: [None, failed]})
    part = stage_rows(plan, rows.to_batches(), attempt=7)
    assert part.failed == [failed]
    assert staging.rows(plan) == [("a", 1, 0)]


def test_many_rows_without_a_key_fail_the_batch(staging: Staging, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_task, "REJECTED_BYTES_MAX", 10)
    with pytest.raises(BadSink, match="the key id is null"):
        stage_rows(staging.plan(), batches((None, 1), (None, 2)), attempt=7)


def test_unavailable_server_is_an_error_without_the_password(staging: Staging) -> None:
    layout = staging.plan().layout
    plan = StagePlan(address="postgresql://shop:hidden@127.0.0.1:1/shop", stage="s", layout=layout)
    assert "hidden" not in repr(plan)
    with pytest.raises(SinkUnavailable) as failed:
        stage_rows(plan, batches(("a", 1)), attempt=7)
    assert "hidden" not in str(failed.value)
