"""What a task writes to Redis: its rows chunk by chunk, and which rows it sends back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Redis, redis_task, task_response
from headrace.pipeline.sinks.redis_client import FencedRedis, RedisTarget
from headrace.pipeline.sinks.redis_commands import RedisLayout
from headrace.pipeline.sinks.redis_task import RedisTaskPlan, write_part, write_rows
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.task_response import responses_of
from headrace.plan_names import FAILED_ROW
from headrace.testing.redis_server import RedisServer

FENCE = Fence(job="job", checkpoint="c", batch_id=0)
BY_TASKS = 0


@pytest.fixture
def plan(redis_server: RedisServer, name: str) -> RedisTaskPlan:
    target = RedisTarget(at=redis_server.address, name=name, job="job", owner="me", timeout_s=5)
    FencedRedis(target).own()
    layout = RedisLayout(name=name, key=("id",), score=None, per=(), order_by=None, expire_s=None)
    return RedisTaskPlan(target=target, layout=layout, fence=FENCE)


def hashes(server: RedisServer, name: str) -> dict[str, dict[str, str]]:
    with redis.Redis.from_url(server.address, decode_responses=True) as client:
        return {key: client.hgetall(key) for key in client.scan_iter(f"{name}:*")}


def reject_none(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(f"nothing should be rejected, and {rows} was")


def test_later_chunk_replaces_an_earlier_one(
    plan: RedisTaskPlan, redis_server: RedisServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_task, "CHUNK_BYTES", 1)
    rows = [pa.record_batch({"id": ["a"], "n": [n], "__headrace_rank": [n]}) for n in range(3)]
    assert write_rows(plan, rows).written == 3
    assert hashes(redis_server, name) == {f"{name}:a": {"id": "a", "n": "2"}}


def test_rejected_and_failed_rows_are_sent(plan: RedisTaskPlan) -> None:
    failed = '{"row": {"id": "b"}, "reason": "no number"}'
    rows = pa.table({"id": ["a", "b", None], FAILED_ROW: [None, failed, None]})
    (response,) = responses_of(write_part(plan, rows.to_batches()))
    assert response.written == 1
    assert [(each.row, each.reason) for each in response.rejected_rows()] == [
        ({"id": "b"}, "no number"),
        ({"id": None}, "id is null"),
    ]


def test_many_rejected_rows_fail_the_batch(plan: RedisTaskPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_task, "REJECTED_BYTES_MAX", 10)
    rows = pa.table({"id": pa.array([None, None], pa.string())})
    with pytest.raises(BadSink, match="id is null"):
        responses_of(write_part(plan, rows.to_batches()))
    assert task_response.REJECTED_BYTES_MAX > 10


def test_last_row_of_a_key_wins_across_partitions(
    spark: SparkSession, redis_server: RedisServer, name: str
) -> None:
    rows = spark.range(0, 5_000, numPartitions=5).selectExpr("pmod(id, 300) AS id", "id AS n")
    sink = Redis(name, key="id", at=redis_server.address, driver_rows_max=BY_TASKS)
    with closing(sink.open("job", rows.schema)) as writer:
        assert writer.write(rows, FENCE, reject_none) == 5_000
        assert writer.applied() == FENCE
        assert writer.write(rows, FENCE, reject_none) == 0
    found: dict[str, dict[str, Any]] = hashes(redis_server, name)
    assert {int(each["id"]): int(each["n"]) for each in found.values()} == {n % 300: n for n in range(5_000)}


def test_task_of_a_fenced_process_writes_nothing(
    spark: SparkSession, redis_server: RedisServer, name: str
) -> None:
    rows = spark.range(0, 10, numPartitions=2)
    sink = Redis(name, key="id", at=redis_server.address, driver_rows_max=BY_TASKS)
    older = sink.open("job", rows.schema)
    sink.open("job", rows.schema).close()
    with closing(older), pytest.raises(SinkUnavailable, match="another process"):
        older.write(rows, FENCE, reject_none)
    assert hashes(redis_server, name) == {}
