"""Batches whose files tasks write: one commit, each once, and checked tables stay with delta-rs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Delta
from headrace.pipeline.sinks.delta_files import DeltaFolder
from headrace.pipeline.sinks.delta_task import DeltaTaskPlan, files_of, write_part, write_rows
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.task_response import responses_of
from headrace.plan_names import FAILED_ROW

BY_TASKS = 0
SCHEMA = pa.schema([("id", pa.int64())])


def fence(batch_id: int) -> Fence:
    return Fence(job="job", checkpoint="c", batch_id=batch_id)


def reject_none(rows: Sequence[RejectedRow]) -> None:
    raise AssertionError(f"nothing should be rejected, and {rows} was")


def plan(folder: Path) -> DeltaTaskPlan:
    return DeltaTaskPlan(
        name="t",
        folder=DeltaFolder(address=str(folder), storage_options={}),
        schema=SCHEMA.serialize().to_pybytes(),
        file_bytes=1_000_000,
    )


def test_rows_of_a_task_are_files_and_failed_rows_are_sent(tmp_path: Path) -> None:
    failed = '{"row": {"id": 2}, "reason": "no number"}'
    rows = pa.table({"id": [1, 2], FAILED_ROW: [None, failed]})
    responses = responses_of(write_part(plan(tmp_path), rows.to_batches()))
    assert [each.rows for each in files_of(responses)] == [1]
    assert [each.reason for each in responses[0].rejected_rows()] == ["no number"]


def test_folder_that_a_task_can_not_write_is_unavailable(tmp_path: Path) -> None:
    rows = pa.table({"id": [1]})
    with pytest.raises(SinkUnavailable, match="can't be written"):
        write_rows(plan(tmp_path / "missing" / "folder"), rows.to_batches())


def test_batch_of_many_tasks_is_one_commit_with_the_fence(spark: SparkSession, tmp_path: Path) -> None:
    sink = Delta("t", at=tmp_path / "t", driver_rows_max=BY_TASKS)
    rows = spark.range(0, 1_000, numPartitions=4)
    with closing(sink.open("job", rows.schema)) as writer:
        before = sink.table().version()
        assert writer.write(rows, fence(0), reject_none) == 1_000
        assert writer.applied() == fence(0)
        assert writer.write(rows, fence(0), reject_none) == 0
    table = sink.table()
    assert table.version() == before + 1
    assert len(table.file_uris()) == 4
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == list(range(1_000))
    actions = pa.table(table.get_add_actions(flatten=True))
    assert sum(actions["num_records"].to_pylist()) == 1_000


def test_replacing_batch_of_tasks_is_the_whole_table(spark: SparkSession, tmp_path: Path) -> None:
    sink = Delta("t", mode="replace", at=tmp_path / "t", driver_rows_max=BY_TASKS)
    with closing(sink.open("job", spark.range(1).schema)) as writer:
        writer.write(spark.range(0, 100, numPartitions=2), fence(0), reject_none)
        writer.write(spark.range(7, 9, numPartitions=2), fence(1), reject_none)
        assert sorted(sink.table().to_pyarrow_table()["id"].to_pylist()) == [7, 8]
        writer.write(spark.range(0), fence(2), reject_none)
    assert sink.table().to_pyarrow_table().num_rows == 0


def test_table_with_constraints_is_written_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """It checks them."""
    sink = Delta("t", at=tmp_path / "t", driver_rows_max=BY_TASKS)
    rows = spark.range(0, 10)
    sink.open("job", rows.schema).close()
    sink.table().alter.add_constraint({"few": "id < 5"})
    with (
        closing(sink.open("job", rows.schema)) as writer,
        pytest.raises(Exception, match="failed validation"),
    ):
        writer.write(rows, fence(0), reject_none)
    assert json.dumps(sink.table().to_pyarrow_table().to_pylist()) == "[]"
