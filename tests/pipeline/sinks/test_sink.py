"""What all sinks share: checks of fields and columns, and defaults. Their promises are in tests/contract."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.pipeline import Job
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks import Discard, OutputMode, Search, Table
from headrace.pipeline.sinks.sink import RejectedRow, check_folder_name, without_failed
from headrace.plan_names import FAILED_ROW
from headrace.testing import Collect, Feed


def test_one_column_or_several_become_names() -> None:
    assert Search("s", key="id").key == Search("s", key=["id"]).key == ("id",)
    assert Search("s").key == ()


def test_value_that_is_no_choice_is_rejected_with_the_choices() -> None:
    with pytest.raises(BadSink, match=r"mode='merge' is unknown \(choose one of upsert, append, replace\)"):
        Table("t", mode="merge")  # type: ignore[arg-type]


def test_all_missing_columns_are_named() -> None:
    Table("t").check_columns(("id", "n", None), ["n", "id"])
    with pytest.raises(BadSink, match=r"table t: the rows have no column a, b \(their columns are: id, n\)"):
        Table("t").check_columns(("a", "id", None, "b"), ["id", "n"])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0"])
def test_name_that_leaves_its_folder_is_rejected(name: str) -> None:
    with pytest.raises(BadSink, match="can't be called"):
        check_folder_name("a table", name)
    check_folder_name("a table", f"a{name}".translate({ord(each): "-" for each in "/\\\0"}))


@pytest.mark.parametrize(
    ("aggregated", "watermarked", "mode"),
    [(False, False, "append"), (False, True, "append"), (True, False, "update"), (True, True, "append")],
)
def test_growing_results_are_updates(*, aggregated: bool, watermarked: bool, mode: OutputMode) -> None:
    assert Search("s").output_mode(aggregated=aggregated, watermarked=watermarked) == mode


def test_only_some_sinks_leave_writing_to_spark() -> None:
    assert Table("t").native() is None
    assert Discard().native() is not None


def test_struct_that_may_be_null_is_written_although_its_fields_may_not(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    feed = Feed(spark, "id BIGINT", tmp_path)
    feed.send({"id": 1}, {"id": 2})
    detail = F.when(F.col("id") == 1, F.struct(F.lit("x").alias("kind")))
    collected = Collect()
    Job(name, feed.rows.select("id", detail.alias("detail")), collected, mode="batch").start().wait()
    assert sorted(collected.rows, key=str) == [{"id": 1, "detail": {"kind": "x"}}, {"id": 2, "detail": None}]


def test_failed_rows_are_rejected_and_stay_only_as_deletes() -> None:
    failure = json.dumps({"reason": "a / b cannot be computed", "row": {"a": 1, "b": 0}})
    rows = pa.table(
        {"id": [1, 2, 3, 4], "op": ["+", "+", "d", None], FAILED_ROW: [None, failure, failure, None]}
    )
    kept, failed = without_failed(rows)
    assert kept.to_pylist() == [{"id": 1, "op": "+"}, {"id": 3, "op": "d"}, {"id": 4, "op": None}]
    assert failed == [RejectedRow(row={"a": 1, "b": 0}, reason="a / b cannot be computed")] * 2


def test_rows_none_of_which_failed_lose_only_the_column_that_tells() -> None:
    rows = pa.table({"id": [1], FAILED_ROW: pa.array([None], pa.string())})
    kept, failed = without_failed(rows)
    assert kept.to_pylist() == [{"id": 1}]
    assert failed == []
