"""Names of variables, columns and functions: resolved, or rejected with their place and a hint."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import Bound, bind, check_types
from headrace.operators.patterns.parsing import parse
from headrace.operators.patterns.place import BadPattern

COLUMNS = {
    "k": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "x": pa.int64(),
    "s": pa.struct({"y": pa.float64()}),
    "tags": pa.map_(pa.string(), pa.int64()),
}


def bound(text: str) -> Bound:
    return bind(text, parse(text), list(COLUMNS))


def test_names_are_compared_without_case_and_shown_as_written() -> None:
    found = bound("PARTITION BY K PATTERN (Small Big) DEFINE small AS X > 1, BIG AS small.x < big.X")
    assert found.keys == ("k",)
    assert found.variables == ("Small", "Big")
    assert found.columns() == ["x"]
    assert found.sets == {"Small": {0}, "Big": {1}}


def test_column_is_that_of_the_last_row_of_its_variable() -> None:
    found = bound("MEASURES A.x AS a, x AS b, PREV(LAST(A.x, 2), 3) AS c, FINAL FIRST(x, 1) AS d PATTERN (A)")
    nodes = [each for _, each in found.measures]
    assert [
        (each.variable, each.is_first, each.offset, each.rows, each.is_final)
        for each in nodes
        if isinstance(each, of.Navigation)
    ] == [
        ("A", False, 0, 0, False),
        (None, False, 0, 0, False),
        ("A", False, 2, -3, False),
        (None, True, 1, 0, True),
    ]


def test_types_of_measures_are_known_before_any_row() -> None:
    text = """MEASURES A.x AS i, A.x / 2 AS half, AVG(x) AS mean, array_agg(CLASSIFIER()) AS path, A.s.y AS y,
        LAST(at) - FIRST(at) AS took, MATCH_NUMBER() AS n, COUNT(*) > 1 AS many, SUM(s.y) AS total, NULL AS nothing
        PATTERN (A)"""
    assert {name: str(kind) for name, kind in check_types(text, bound(text), COLUMNS, "at").items()} == {
        "i": "int64",
        "half": "double",
        "mean": "double",
        "path": "list<item: string>",
        "y": "double",
        "took": "duration[us]",
        "n": "int64",
        "many": "bool",
        "total": "double",
        "nothing": "null",
    }


ERRORS = {
    "PATTERN (A) DEFINE B AS x > 1": (20, "variable 'B' is unknown"),
    "PATTERN (A) DEFINE A AS x > 1, a AS x > 2": (32, "defined twice"),
    "PATTERN (A a)": (12, "also written 'A'"),
    "PATTERN (A) SUBSET U = (A, C)": (20, "variable 'C' is unknown"),
    "PATTERN (A) SUBSET A = (A)": (20, "already a variable"),
    "PATTERN (A) SUBSET U = (A), V = (U)": (29, "a subset of subsets"),
    "PATTERN (A) SUBSET U = (A) DEFINE U AS x > 1": (35, "is a subset"),
    "AFTER MATCH SKIP TO FIRST B PATTERN (A)": (27, "variable 'B' is unknown"),
    "PATTERN (A) DEFINE A AS B.x > 1": (25, "variable 'B' is unknown"),
    "PATTERN (A) DEFINE A AS A.xx > 1": (27, "column 'xx' does not exist"),
    "PATTERN (A) DEFINE A AS z > 1": (25, "column 'z' does not exist"),
    "PARTITION BY A.x PATTERN (A)": (14, "is not a column"),
    "ORDER BY z PATTERN (A)": (10, "column 'z' does not exist"),
    "PATTERN (A) DEFINE A AS LOWR(k) = 'a'": (25, "function LOWR is unknown"),
    "PATTERN (A) DEFINE A AS LOWER(k, k) = 'a'": (25, "LOWER has 2 arguments"),
    "PATTERN (A) DEFINE A AS FINAL LAST(x) > 1": (31, "FINAL is not possible in DEFINE"),
    "PATTERN (A B) DEFINE B AS LAST(A.x + B.x) > 1": (38, "different variables"),
    "PATTERN (A) DEFINE A AS LAST(1) > 1": (25, "has no column"),
    "PATTERN (A) DEFINE A AS LAST(x, x) > 1": (33, "the offset of LAST must be a number"),
    "PATTERN (A) DEFINE A AS LAST(PREV(x)) > 1": (30, "PREV is not possible inside of LAST"),
    "PATTERN (A) DEFINE A AS SUM(COUNT(x)) > 1": (29, "COUNT is not possible inside of SUM"),
    "PATTERN (A) DEFINE A AS SUM(*) > 1": (25, "only COUNT"),
    "PATTERN (A) DEFINE A AS RUNNING ABS(x) > 1": (33, "RUNNING is not possible with ABS"),
    "PATTERN (A) DEFINE A AS RUNNING PREV(x) > 1": (33, "RUNNING is not possible with PREV"),
    "PATTERN (A) DEFINE A AS MATCH_ROWTIME() > at": (25, "not possible in DEFINE"),
    "PATTERN (A) DEFINE A AS CLASSIFIER(x.y) = 'A'": (25, "CLASSIFIER takes a variable"),
    "PATTERN (A) DEFINE A AS CAST(x AS number) > 1": (25, "type 'number' is unknown"),
    "MEASURES x AS a, x AS a PATTERN (A)": (23, "is there twice"),
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS PATTERN ({- A -})": (40, "an exclusion"),
    "PATTERN (" + " ".join(f"v{number}" for number in range(61)) + ")": (1, "61 variables"),
}


@pytest.mark.parametrize("text", ERRORS, ids=[text[:60] for text in ERRORS])
def test_error_has_its_place(text: str) -> None:
    column, problem = ERRORS[text]
    with pytest.raises(BadPattern) as rejected:
        bound(text)
    assert problem in str(rejected.value)
    assert (rejected.value.line, rejected.value.column) == (1, column)


TYPE_ERRORS = {
    "PATTERN (A) DEFINE A AS x > 'a'": (27, "> is not possible with int64 and string"),
    "PATTERN (A) DEFINE A AS k + 1 > 0": (27, "+ is not possible"),
    "PATTERN (A) DEFINE A AS k / 2 > 0": (27, "/ is not possible with string and int64"),
    "PATTERN (A) DEFINE A AS k % 2 > 0": (27, "% is not possible with string and int64"),
    "PATTERN (A) DEFINE A AS SQRT(k) > 0": (25, "SQRT is not possible with string"),
    "PATTERN (A) DEFINE A AS x": (25, "must be true or false"),
    "PATTERN (A) DEFINE A AS s.z > 1": (25, "s.z is not a field"),
    "PATTERN (A) DEFINE A AS at > 'noon'": (28, "'noon'"),
    "MEASURES SUM(k) AS a PATTERN (A)": (10, "SUM needs a number"),
    "MEASURES MAX(s) AS a PATTERN (A)": (10, "MAX needs values with an order"),
    "MEASURES BOOL_AND(x) AS a PATTERN (A)": (10, "needs true or false"),
    "MEASURES COUNT(DISTINCT s) AS a PATTERN (A)": (10, "COUNT(DISTINCT …) is not possible with struct"),
    "PARTITION BY k, s PATTERN (A)": (17, "column 's' is struct<y: double>, which can't be a key"),
    "ORDER BY at, s, tags PATTERN (A)": (17, "column 'tags' is map<string, int64>, which has no order"),
    "MEASURES CASE WHEN x > 1 THEN 'a' ELSE 1 END AS a PATTERN (A)": (10, "CASE is not possible"),
}


@pytest.mark.parametrize("text", TYPE_ERRORS)
def test_wrong_type_has_its_place(text: str) -> None:
    column, problem = TYPE_ERRORS[text]
    with pytest.raises(BadPattern) as rejected:
        check_types(text, bound(text), COLUMNS, "at")
    assert problem in rejected.value.message
    assert rejected.value.column == column


def test_time_of_a_match_needs_an_order_by_time() -> None:
    text = "MEASURES MATCH_ROWTIME() AS at PATTERN (A)"
    with pytest.raises(BadPattern, match="needs ORDER BY a timestamp"):
        check_types(text, bound(text), COLUMNS, None)
