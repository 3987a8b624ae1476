"""Columns of sorted rows: neighbours stay within their partition."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.expressions import evaluate
from headrace.operators.patterns.row_columns import PointLeaves, RowColumns, where

ROWS = RowColumns(
    {"v": pa.array([1, 2, 3, 4, 5]), "s": pa.array([{"y": each} for each in "abcde"])},
    np.array([0, 3]),
    np.array([3, 5]),
)
V = of.Field("v")


def test_neighbours_are_of_the_same_partition() -> None:
    rows = np.arange(5)
    assert ROWS.moved(rows, -1).tolist() == [-1, 0, 1, -1, 3]
    assert ROWS.moved(rows, 2).tolist() == [2, -1, -1, -1, -1]
    assert ROWS.moved(np.array([-1, 4]), 0).tolist() == [-1, 4]
    assert ROWS.same_partition(0, 2)
    assert not ROWS.same_partition(2, 3)


def test_condition_sees_the_row_and_its_neighbours() -> None:
    leaves = ROWS.leaves("A")
    assert evaluate(of.Navigation(V, None), leaves).to_pylist() == [1, 2, 3, 4, 5]
    assert evaluate(of.Navigation(V, "A", rows=1), leaves).to_pylist() == [2, 3, None, 5, None]
    assert evaluate(of.Navigation(of.Classifier(), "A"), leaves).to_pylist() == ["A"] * 5
    either = of.Operation("coalesce", (V, of.Constant(0)))
    assert evaluate(of.Navigation(either, None, rows=-1), leaves).to_pylist() == [None, 1, 2, None, 4]


def test_expression_at_given_rows_is_null_without_a_row() -> None:
    assert evaluate(V, PointLeaves(ROWS, np.array([4, -1, 0]))).to_pylist() == [5, None, 1]
    assert evaluate(of.Field("s", ("y",)), PointLeaves(ROWS, np.array([1]))).to_pylist() == ["b"]


def test_values_are_null_where_the_mask_is_false() -> None:
    assert where(np.array([True, False]), pa.array([1, 2])).to_pylist() == [1, None]
