"""Compaction of a Delta table, beside the batches."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pytest
from deltalake import DeltaTable
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.delta import Delta
from headrace.pipeline.sinks.delta_fences import FENCES
from headrace.pipeline.sinks.delta_upkeep import LOOK_EVERY_BATCHES, small_files
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter

ARROW = pyarrow.schema([("id", pyarrow.int64())])
SCHEMA = from_arrow_schema(ARROW)


def fence(number: int) -> Fence:
    return Fence(job="loading", checkpoint="c-1", batch_id=number)


def write(writer: SinkWriter, batches: int) -> None:
    def fail(rows: Sequence[RejectedRow]) -> None:
        raise AssertionError(rows)

    for number in range(batches):
        writer.apply(pyarrow.table([[number]], schema=ARROW).to_batches(), fence(number), fail)
    writer.close()


def operations(table: DeltaTable) -> set[str]:
    return {commit["operation"] for commit in table.history()}


def test_small_files_are_compacted_and_the_fence_stays(tmp_path: Path) -> None:
    delta = Delta("events", at=tmp_path, compact_files=4, keep_hours=0)
    write(delta.open("loading", SCHEMA), 8)
    table = delta.table()
    assert small_files(table, delta.file_bytes) < 8
    assert "OPTIMIZE" in operations(table)
    assert table.count() == 8
    assert all(FENCES in commit for commit in table.history(3))
    assert delta.open("loading", SCHEMA).applied() == fence(7)


@pytest.mark.parametrize("compact_files", [0, LOOK_EVERY_BATCHES + 1])
def test_few_files_are_not_compacted(tmp_path: Path, compact_files: int) -> None:
    delta = Delta("events", at=tmp_path, compact_files=compact_files)
    write(delta.open("loading", SCHEMA), LOOK_EVERY_BATCHES)
    assert "OPTIMIZE" not in operations(delta.table())


def test_only_files_below_half_the_size_are_small(tmp_path: Path) -> None:
    delta = Delta("events", at=tmp_path, compact_files=0)
    write(delta.open("loading", SCHEMA), 3)
    (size,) = set(pyarrow.table(delta.table().get_add_actions(flatten=True))["size_bytes"].to_pylist())
    assert small_files(delta.table(), 2 * size) == 0
    assert small_files(delta.table(), 2 * size + 2) == 3
