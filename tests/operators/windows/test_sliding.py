"""Sliding windows: their settings, and their results on Spark."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from tests.operators.streams import bounded, since_epoch


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Sliding("-5 minutes"), "within"),
        (lambda: op.Sliding("1 minute", trigger=op.Trigger(panes="discarding")), "trigger"),
    ],
)
def test_an_invalid_sliding_window_is_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_window_ends_at_every_row_and_looks_back(spark: SparkSession) -> None:
    window = op.Sliding("1 minute", by="user", aggregate={"n": "count(*)", "total": "sum(ms)"}, time="at")
    rows = bounded(spark, [("ann", 0, 1), ("ann", 59, 2), ("ann", 60, 4), ("bob", 60, 8), ("ann", 60, 16)])
    found = sorted(
        (row.user, since_epoch(row.window_start), since_epoch(row.window_end), row.n, row.total)
        for row in window(rows).collect()
    )
    assert found == [
        ("ann", -60, 0, 1, 1),
        ("ann", -1, 59, 2, 3),
        ("ann", 0, 60, 3, 22),
        ("bob", 0, 60, 1, 8),
    ]
