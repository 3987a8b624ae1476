"""Comparing two versions."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.views.comparison import compare, counts_of, have_same_columns, is_same, shown
from headrace.views.definition import Definition
from headrace.views.store import Store
from headrace.views.stores import open_store

SCHEMA = StructType().add("id", "long").add("total", "double")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(Definition(name="totals", topics=("t",), key=("id",)), tmp_path)


def fill(store: Store, version: int, rows: dict[int, float]) -> None:
    writer = store.sink(version).open(f"job {version}", SCHEMA)
    schema = pa.schema([("id", pa.int64()), ("total", pa.float64())])
    batch = pa.RecordBatch.from_pylist([{"id": key, "total": total} for key, total in rows.items()], schema)
    writer.apply([batch], Fence(job="j", checkpoint="c", batch_id=0), lambda _rejected: None)
    writer.close()


def test_equal_versions_are_equal_and_sums_may_differ_in_the_last_digit(store: Store) -> None:
    fill(store, 1, {1: 0.1 + 0.2, 2: 5.0})
    fill(store, 2, {1: 0.3, 2: 5.0})
    found = compare(store, 1, 2)
    assert found.is_equal
    assert found.compared == 4


def test_missing_additional_and_changed_rows_are_named(store: Store) -> None:
    fill(store, 1, {1: 1.0, 2: 2.0, 3: 3.0})
    fill(store, 2, {2: 2.5, 3: 3.0, 4: 4.0})
    found = compare(store, 1, 2)
    assert not found.is_equal
    assert sorted(found.differences) == [
        "id 1: only in the old version",
        "id 2: total is 2.5 and was 2.0",
        "id 4: only in the new version",
    ]


def test_other_count_is_a_difference_even_if_the_sample_is_equal(store: Store) -> None:
    fill(store, 1, dict.fromkeys(range(100), 1.0))
    fill(store, 2, dict.fromkeys(range(99), 1.0))
    found = compare(store, 1, 2, sample=0)
    assert found.differences == ()
    assert not found.is_equal


def test_counts_find_a_version_that_lost_all_rows(store: Store) -> None:
    fill(store, 1, {1: 1.0})
    fill(store, 2, {1: 1.0})
    assert not counts_of(store, 1, store, 2).is_emptied
    writer = store.sink(2).open("job 2", SCHEMA)
    writer.clear()
    writer.close()
    assert counts_of(store, 1, store, 2).is_emptied


def test_versions_with_other_columns_are_not_compared(store: Store) -> None:
    fill(store, 1, {1: 1.0})
    fill(store, 2, {})
    assert have_same_columns(store, 1, 2)
    writer = store.sink(3).open("job 3", StructType().add("id", "long").add("sum", "double"))
    batch = pa.RecordBatch.from_pylist([{"id": 1, "sum": 1.0}])
    writer.apply([batch], Fence(job="j", checkpoint="c", batch_id=0), lambda _rejected: None)
    writer.close()
    assert not have_same_columns(store, 1, 3)
    assert have_same_columns(store, 3, 3)


def test_values_are_compared_by_content() -> None:
    assert is_same({"a": [1, math.nan]}, {"a": [1, math.nan]})
    assert not is_same({"a": 1}, {"a": 1, "b": None})
    assert not is_same(None, {"a": 1})
    assert not is_same([1], [1, 2])


def test_message_shows_a_few_differences() -> None:
    assert shown(["a", "b", "c", "d", "e"]) == "a; b; c; and 2 more"
    assert shown(["a"]) == "a"
