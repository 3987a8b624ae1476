"""The path of a match: what conditions see of it, after steps forward and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import bind
from headrace.operators.patterns.parsing import parse
from headrace.operators.patterns.paths import Fold, Path, collected
from headrace.operators.patterns.row_columns import RowColumns

VALUES = [5, 3, None, 8, 1]
A, B = 0, 1


def path_with(condition: str) -> Path:
    """A path whose condition of B is the given one."""
    text = f"PATTERN (A B) SUBSET U = (A, B) DEFINE B AS {condition}"
    bound = bind(text, parse(text), ["v"])
    given = bound.conditions[B]
    assert given is not None
    path = Path(bound, {B: [given]})
    path.begin(RowColumns({"v": pa.array(VALUES)}, np.array([0]), np.array([5])), 0, 1, 7)
    return path


@pytest.mark.parametrize(
    "condition",
    [
        "FIRST(A.v) = 3 AND LAST(A.v, 1) = 3",
        "LAST(A.v) IS NULL AND PREV(LAST(A.v), 2) = 5",
        "SUM(A.v) = 3 AND COUNT(A.*) = 2 AND COUNT(A.v) = 1",
        "MIN(U.v) = 3 AND MAX(v) = 8 AND AVG(v) = 5.5",
        "COUNT(DISTINCT v) = 2 AND SUM(DISTINCT v / v) = 1 AND MATCH_NUMBER() = 7",
        "CLASSIFIER() = 'B' AND PREV(CLASSIFIER()) = 'A' AND PREV(CLASSIFIER(), 3) IS NULL",
        "LAST(CLASSIFIER(A)) = 'A' AND FIRST(v, 1) IS NULL AND NEXT(v) = 1",
        "BOOL_OR(A.v = 3) AND ANY_VALUE(v) = 3",
        "LAST(A.v, 2) IS NULL AND FIRST(B.v, 1) IS NULL",
    ],
)
def test_condition_sees_the_rows_so_far(condition: str) -> None:
    path = path_with(condition)
    # Steps that are undone leave nothing behind.
    path.push(B)
    path.push(A)
    path.pop()
    path.pop()
    for variable in (A, A, B):
        path.push(variable)
    assert path.is_satisfied()


def test_condition_that_is_unknown_is_not_satisfied() -> None:
    path = path_with("LAST(A.v) > 1")
    path.push(B)
    assert not path.is_satisfied()
    path.pop()
    path.push(A)
    assert path.is_satisfied()  # A has no condition


def test_folds_ignore_null() -> None:
    fold = Fold("avg")
    assert fold.value() is None
    for each in (1, None, 2):
        fold.add(each)
    assert fold.value() == 1.5


def test_collected_values_keep_their_order() -> None:
    assert collected(of.Aggregate("array_agg", of.Field("v"), None), [2, 1, 2]) == [2, 1, 2]
    assert collected(of.Aggregate("array_agg", of.Field("v"), None, is_distinct=True), [2, 1, 2]) == [2, 1]
    assert collected(of.Aggregate("count", of.Field("v"), None, is_distinct=True), [2, None, 2]) == 1
