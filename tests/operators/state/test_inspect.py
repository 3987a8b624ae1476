"""The state of a checkpoint as rows."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.errors import HeadraceError
from headrace.operators.folds import CountFold
from headrace.operators.state import inspect
from headrace.operators.state.inspect import (
    find_state,
    read_own_partitions,
    read_own_state,
    read_state,
    state_operators,
    with_names,
)
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.run import decode_table
from headrace.operators.tables.latest_step import LatestStep
from headrace.operators.windows.lifting import ClockSlots
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from tests.operators.streams import EPOCH_S, Stream, since_epoch
from tests.operators.windows.pane_oracle import Row, Rules
from tests.operators.windows.stepping import Windows


def test_the_state_of_a_stream_can_be_read(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Sliding(
        "1 minute", by="user", aggregate={"total": "sum(ms)"}, time="at", late=op.Correct(within="10 minutes")
    )
    stream = Stream(spark, tmp_path, window)
    stream.send([("ann", 0, 1)])
    emitted = stream.send([("ann", 50, 2), (None, 55, 3), ("ann", 300, 4)])
    assert sorted((str(row["user"]), row["total"], since_epoch(row["window_end"])) for row in emitted) == [
        ("None", 3, 55),
        ("ann", 1, 0),
        ("ann", 3, 50),
    ]
    kept = read_state(spark, tmp_path / "checkpoint").to_pylist()
    assert sorted((str(row["user"]), row["end"] // 1_000_000 - EPOCH_S, row["rows"]) for row in kept) == [
        ("None", 55, 1),
        ("ann", 0, 1),
        ("ann", 50, 1),
        ("ann", 300, 1),
    ]
    (operator,) = state_operators(spark, tmp_path / "checkpoint")
    assert (operator.number, operator.is_of_headrace, operator.side) == (0, True, None)
    found = find_state(spark, tmp_path / "checkpoint", keys={"user": "ann"}, rows_max=2)
    assert (found.keys, found.rows.num_rows, found.count) == (("user",), 2, 3)
    assert found.owner.startswith("sliding ")


def test_names_are_distinct_and_those_of_the_user_win() -> None:
    columns = [pa.field("user", pa.string()), pa.field("at", pa.int64())]
    latest = LatestStep(columns=columns, key=["user"], order=columns[1:], keeps_deleted=False)
    names = with_names(latest.state_schema.empty_table()).column_names
    assert names == ["id", "row_hash", "is_deleted", "order.at", "user", "at"]
    shape = PaneShape(keys=[pa.field("start", pa.int64())], folds=[("n", CountFold())], rules=PaneRules())
    window = with_names(PaneStep(shape).state_schema.empty_table())
    assert window.column_names[:5] == ["id", "start", "state.start", "end", "rows"]


def test_own_state_of_spark_has_distinct_names(spark: SparkSession, tmp_path: Path) -> None:
    """Session windows have their keys in the key and in the value."""
    stream = Stream(spark, tmp_path, op.Session(gap="1 minute", by="user", time="at"))
    stream.send([("ann", 0, 1), ("ann", 10, 1), ("bob", 5, 1)])
    folder = tmp_path / "checkpoint"
    (operator,) = state_operators(spark, folder)
    assert not operator.is_of_headrace
    (last, *_) = sorted((int(each.name) for each in (folder / "commits").glob("[0-9]*")), reverse=True)
    for rows in (
        read_own_state(spark, folder, operator),
        read_own_partitions(spark, folder, operator, batch_id=last),
    ):
        assert len(set(rows.columns)) == len(rows.columns)
        assert sorted((row["user"], row["count"]) for row in rows.toArrow().to_pylist()) == [
            ("ann", 2),
            ("bob", 1),
        ]


RULES = Rules(within=10**6)
SLOTS = ClockSlots(length_us=10, every_us=10)
ROWS: list[Row] = [("a", 1, 1), ("a", 11, 2), ("a", 21, 3), ("b", 1, 4)]


def bucket_of(windows: Windows, *, without: int = 0) -> pa.Table:
    """A bucket as Spark reads it: its manifest with each of its runs."""
    runs = windows.table.runs
    manifest = Manifest(version=1, buckets=4, runs=tuple(run.name for run in runs), owner="tumbling 1f2e3d4c")
    stored: list[tuple[str | None, bytes | None]] = [(run.name, run.encode()) for run in runs[without:]]
    return pa.Table.from_pylist(
        [
            {"bucket": 3, "manifest": manifest.to_json(), "name": name, "content": content}
            for name, content in stored or [(None, None)]
        ]
    )


def windows_with_state() -> Windows:
    windows = Windows(RULES, slots=SLOTS)
    windows.work(ROWS, -math.inf, 1)
    return windows


@pytest.mark.parametrize(
    ("keys", "rows_max", "count", "shown"),
    [((), 10, 4, 4), ((), 3, 4, 3), (("a",), 10, 3, 3), ({"key": "b"}, 10, 1, 1), (("c",), 10, 0, 0)],
)
def test_the_rows_of_a_key_are_found_in_a_bucket(
    keys: inspect.Keys, rows_max: int, count: int, shown: int
) -> None:
    (found,) = inspect._finder(keys, rows_max)(bucket_of(windows_with_state())).to_pylist()
    assert (found["owner"], found["keys"], found["count"]) == ("tumbling 1f2e3d4c", ["key"], count)
    rows = decode_table(found["rows"])
    assert rows.num_rows == shown
    assert set(rows.column("bucket").to_pylist()) <= {3}


def test_a_bucket_without_runs_has_no_rows() -> None:
    (found,) = inspect._finder((), 10)(bucket_of(Windows(RULES, slots=SLOTS))).to_pylist()
    assert (found["keys"], found["rows"], found["count"]) == (None, None, 0)


def test_a_missing_run_is_an_error() -> None:
    with pytest.raises(HeadraceError, match="of bucket 3 is missing") as rejected:
        inspect._finder((), 10)(bucket_of(windows_with_state(), without=1))
    assert "again" in rejected.value.hint


@pytest.mark.parametrize(("keys", "unknown"), [({"city": "x"}, "city"), (["a", "b"], "b")])
def test_an_unknown_key_is_rejected(keys: inspect.Keys, unknown: str) -> None:
    with pytest.raises(HeadraceError, match=f"no column for the key '{unknown}'") as rejected:
        inspect.check_keys(["user"], keys)
    assert rejected.value.hint == "the key is: user"
