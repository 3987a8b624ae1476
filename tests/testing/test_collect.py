"""The sink that collects rows in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.testing import Collect


def fence(batch_id: int) -> Fence:
    return Fence(job="job", checkpoint="first", batch_id=batch_id)


def rows(*numbers: int) -> Any:
    return pa.table({"n": list(numbers)}).to_batches()


def test_batches_are_kept_in_their_order_and_a_replayed_one_once() -> None:
    collected = Collect()
    writer = collected.open("job", StructType())
    assert writer.applied() is None
    assert writer.apply(rows(1, 2), fence(0), lambda _rejected: None) == 2
    assert writer.apply(rows(3), fence(1), lambda _rejected: None) == 1
    assert writer.apply(rows(3), fence(1), lambda _rejected: None) == 0
    assert writer.applied() == fence(1)
    assert collected.rows == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert collected.batches == {0: [{"n": 1}, {"n": 2}], 1: [{"n": 3}]}


def test_rebuild_clears_rows_and_fence() -> None:
    collected = Collect()
    writer = collected.open("job", StructType())
    writer.apply(rows(1), fence(0), lambda _rejected: None)
    writer.clear()
    assert (collected.rows, writer.applied()) == ([], None)
