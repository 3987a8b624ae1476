"""Session windows: their settings, and sessions that a late row merges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from tests.operators.streams import Stream, since_epoch


def test_sessions_of_a_stream_merge_when_a_late_row_bridges_them(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Session(
        gap="40 seconds", by="user", aggregate={"n": "count(*)"}, time="at", late=op.Correct(within="1 day")
    )
    stream = Stream(spark, tmp_path, window)
    emitted = stream.send([("ann", 0, 1), ("ann", 50, 1), ("bob", 500, 1)])
    assert sorted((row["op"], row["n"], since_epoch(row["window_start"])) for row in emitted) == [
        ("+", 1, 0),
        ("+", 1, 50),
    ]
    bridged = stream.send([("ann", 30, 1)])
    assert sorted((row["op"], row["n"], since_epoch(row["window_end"])) for row in bridged) == [
        ("+", 3, 90),
        ("-", 1, 40),
        ("-", 1, 90),
    ]


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Session(gap=timedelta()), "gap"),
        (lambda: op.Session(gap="1 minute", trigger=op.Trigger(panes="accumulating")), "trigger"),
        (lambda: op.Session(gap="-1 minute"), "gap"),
        (lambda: op.Session(gap=op.PerRow(" ")), "expression"),
    ],
)
def test_a_session_without_a_valid_gap_is_rejected(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint
