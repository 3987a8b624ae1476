"""Measures: navigation, aggregates, running and final, and all modes of output. The cases are in one table."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.operators.patterns.expressions import BadExpression
from tests.operators.patterns.rows_of_pattern import matched

COLUMNS = {"n": pa.int64(), "v": pa.int64(), "d": pa.decimal128(8, 2), "f": pa.float64(), "s": pa.string()}
VALUES = [90, 80, 70, 80, 95, 50, 40, 60]
ROWS = [
    {"n": at + 1, "v": v, "d": Decimal(v) / 4, "f": None if v == 70 else v / 2, "s": f"s{v}"}
    for at, v in enumerate(VALUES)
]
DIP = "PATTERN (A B+ C+) DEFINE B AS v < PREV(v), C AS v > PREV(v)"

ONE_ROW: dict[str, list[Any]] = {
    "v": [95, 60],
    "A.v": [90, 50],
    "FIRST(B.v)": [80, 40],
    "LAST(B.v)": [70, 40],
    "LAST(B.v, 1)": [80, None],
    "FIRST(B.v, 1)": [70, None],
    "LAST(v, 2)": [70, 50],
    "PREV(A.v)": [None, 95],
    "NEXT(C.v)": [50, None],
    "PREV(FIRST(C.v), 2)": [80, 50],
    "NEXT(LAST(B.v, 1), 2)": [80, None],
    "LAST(A.v + 1) * 2": [182, 102],
    "CLASSIFIER()": ["C", "C"],
    "CLASSIFIER(U)": ["B", "B"],
    "FIRST(CLASSIFIER())": ["A", "A"],
    "PREV(CLASSIFIER(), 2)": ["B", "A"],
    "NEXT(CLASSIFIER())": [None, None],
    "MATCH_NUMBER()": [1, 2],
    "COUNT(*)": [5, 3],
    "COUNT(B.*)": [2, 1],
    "COUNT(f)": [4, 3],
    "COUNT(U.v) + COUNT(C.v)": [5, 3],
    "SUM(B.v)": [150, 40],
    "SUM(D.v)": [None, None],
    "SUM(d)": [Decimal("103.75"), Decimal("37.50")],
    "AVG(U.v)": [80.0, 45.0],
    "AVG(f)": [43.125, 25.0],
    "MIN(v)": [70, 40],
    "MAX(f)": [47.5, 30.0],
    "MIN(s)": ["s70", "s40"],
    "MAX(B.d)": [Decimal("20.00"), Decimal("10.00")],
    "ARRAY_AGG(B.v)": [[80, 70], [40]],
    "ARRAY_AGG(D.v)": [None, None],
    "ARRAY_AGG(DISTINCT v)": [[90, 80, 70, 95], [50, 40, 60]],
    "COUNT(DISTINCT v)": [4, 3],
    "SUM(DISTINCT v)": [335, 150],
    "AVG(DISTINCT v)": [83.75, 50.0],
    "MAX(DISTINCT v)": [95, 60],
    "ARRAY_AGG(CLASSIFIER())": [["A", "B", "B", "C", "C"], ["A", "B", "C"]],
    "BOOL_AND(v > 45)": [True, False],
    "BOOL_OR(B.v > 75)": [True, False],
    "ANY_VALUE(B.v)": [80, 40],
    "SUM(MATCH_NUMBER() * 10)": [50, 60],
    "CASE WHEN COUNT(*) > 4 THEN 'long' ELSE 'short' END": ["long", "short"],
    "COALESCE(PREV(A.v), 0) - A.v": [-90, 45],
    "1": [1, 1],
}


@pytest.mark.parametrize("measure", ONE_ROW)
def test_measure_of_a_match(measure: str) -> None:
    pattern = "PATTERN (A B+ C+ D?) SUBSET U = (A, B) DEFINE B AS v < PREV(v), C AS v > PREV(v), D AS false"
    found = matched(f"ORDER BY n MEASURES {measure} AS m {pattern}", COLUMNS, ROWS)
    assert [row["m"] for row in found] == ONE_ROW[measure]


ALL_ROWS: dict[str, list[Any]] = {
    "v": [90, 80, 70, 80, 95, 50, 40, 60],
    "LAST(B.v)": [None, 80, 70, 70, 70, None, 40, 40],
    "FINAL LAST(B.v)": [70, 70, 70, 70, 70, 40, 40, 40],
    "RUNNING FIRST(v, 1)": [None, 80, 80, 80, 80, None, 40, 40],
    "FINAL FIRST(v, 1)": [80, 80, 80, 80, 80, 40, 40, 40],
    "CLASSIFIER()": ["A", "B", "B", "C", "C", "A", "B", "C"],
    "RUNNING COUNT(*)": [1, 2, 3, 4, 5, 1, 2, 3],
    "FINAL COUNT(*) - COUNT(*)": [4, 3, 2, 1, 0, 2, 1, 0],
    "SUM(B.v)": [None, 80, 150, 150, 150, None, 40, 40],
    "FINAL SUM(B.v)": [150, 150, 150, 150, 150, 40, 40, 40],
    "MIN(f)": [45.0, 40.0, 40.0, 40.0, 40.0, 25.0, 20.0, 20.0],
    "AVG(v)": [90.0, 85.0, 80.0, 80.0, 83.0, 50.0, 45.0, 50.0],
    "ARRAY_AGG(B.n)": [None, [2], [2, 3], [2, 3], [2, 3], None, [7], [7]],
    "PREV(v)": [None, 90, 80, 70, 80, 95, 50, 40],
    "MATCH_NUMBER()": [1, 1, 1, 1, 1, 2, 2, 2],
}


@pytest.mark.parametrize("measure", ALL_ROWS)
def test_measure_of_each_row(measure: str) -> None:
    found = matched(f"ORDER BY n MEASURES {measure} AS m ALL ROWS PER MATCH {DIP}", COLUMNS, ROWS)
    assert [row["n"] for row in found] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert [row["m"] for row in found] == ALL_ROWS[measure]


MODES: dict[str, list[tuple[Any, ...]]] = {
    "ONE ROW PER MATCH": [(None, 1, None, 0), (None, 2, "B", 1), (None, 3, None, 0)],
    "ALL ROWS PER MATCH": [(1, 1, None, 0), (2, 2, "B", 1), (3, 3, None, 0)],
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": [(2, 2, "B", 1)],
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS": [(1, 1, None, 0), (2, 2, "B", 1), (3, 3, None, 0)],
}


@pytest.mark.parametrize("mode", MODES)
def test_empty_matches_have_a_number_and_no_rows(mode: str) -> None:
    measures = "MATCH_NUMBER() AS m, CLASSIFIER() AS c, COUNT(*) AS x"
    text = f"ORDER BY n MEASURES {measures} {mode} PATTERN (B*) DEFINE B AS v = 80"
    found = matched(text, COLUMNS, ROWS[:3])
    assert [(row.get("n"), row["m"], row["c"], row["x"]) for row in found] == MODES[mode]


def test_unmatched_rows_have_no_measures_and_are_in_the_order_of_rows() -> None:
    mode = "ALL ROWS PER MATCH WITH UNMATCHED ROWS"
    text = f"ORDER BY n MEASURES CLASSIFIER() AS c {mode} PATTERN (A B) DEFINE B AS v > 80"
    found = matched(text, COLUMNS, ROWS)
    assert [(row["n"], row["c"]) for row in found] == [
        (1, None), (2, None), (3, None), (4, "A"), (5, "B"), (6, None), (7, None), (8, None)
    ]  # fmt: skip


def test_excluded_rows_are_in_the_match_and_not_in_the_output() -> None:
    pattern = DIP.replace("B+", "{- B+ -}")
    text = f"ORDER BY n MEASURES COUNT(*) AS x ALL ROWS PER MATCH {pattern}"
    assert [(row["n"], row["x"]) for row in matched(text, COLUMNS, ROWS)] == [
        (1, 1),
        (4, 4),
        (5, 5),
        (6, 1),
        (8, 3),
    ]


def test_rows_may_be_in_several_matches() -> None:
    text = "ORDER BY n MEASURES ARRAY_AGG(n) AS x AFTER MATCH SKIP {} PATTERN (A B B) DEFINE B AS v > 0"
    starts = {
        skip: [row["x"][0] for row in matched(text.format(skip), COLUMNS, ROWS)]
        for skip in ("TO NEXT ROW", "TO B", "TO FIRST B", "PAST LAST ROW")
    }
    assert starts == {
        "TO NEXT ROW": [1, 2, 3, 4, 5, 6],
        "TO B": [1, 3, 5],
        "TO FIRST B": [1, 2, 3, 4, 5, 6],
        "PAST LAST ROW": [1, 4],
    }


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_sum_that_does_not_fit_is_an_error(rows: str) -> None:
    text = f"ORDER BY n MEASURES SUM(v) AS x {rows} PATTERN (A+)"
    values = [2**62, 2**62, -(2**62)]
    with pytest.raises(BadExpression, match="SUM does not fit in 64 bits"):
        matched(text, COLUMNS, [{"n": at, "v": v} for at, v in enumerate(values[:2])])
    in_order = [{"n": at, "v": v} for at, v in enumerate(sorted(values))]
    assert matched(text, COLUMNS, in_order)[-1]["x"] == 2**62


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_nan_is_greater_than_all_numbers(rows: str) -> None:
    text = f"ORDER BY n MEASURES MIN(f) AS low, MAX(f) AS high {rows} PATTERN (A+)"

    def last(*values: float | None) -> str:
        found = matched(text, COLUMNS, [{"n": at, "f": f} for at, f in enumerate(values)])[-1]
        return f"{found['low']} {found['high']}"

    assert last(math.nan, 1.0, None, 3.0) == "1.0 nan"
    assert last(1.0, math.nan, 3.0) == "1.0 nan"
    assert last(math.nan, None) == "nan nan"
    assert last(None, math.inf) == "inf inf"
    assert last(-math.inf, None) == "-inf -inf"
    assert last(None, None) == "None None"


@pytest.mark.parametrize("rows", ["ONE ROW PER MATCH", "ALL ROWS PER MATCH"])
def test_sum_of_decimals_has_all_digits(rows: str) -> None:
    columns = {"n": pa.int64(), "d": pa.decimal128(38, 18)}
    amount = Decimal("12345678901.123456789012345678")

    def total(value: Decimal) -> Decimal:
        text = f"ORDER BY n MEASURES SUM(d) AS x {rows} PATTERN (A+) DEFINE A AS SUM(d) > 0"
        found: Decimal = matched(text, columns, [{"n": at, "d": value} for at in range(3)])[-1]["x"]
        return found

    assert total(amount) == Decimal("37037036703.370370367037037034")
    with pytest.raises(BadExpression, match="SUM does not fit in 38 digits"):
        total(Decimal("9" * 20))
