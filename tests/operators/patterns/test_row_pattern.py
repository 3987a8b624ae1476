"""Patterns built in Python are the patterns of the text."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace import operators as op
from headrace.operators.patterns.parsing import parse
from tests.operators.patterns.test_parsing import _without_places

A, B = op.RowPattern("A", "v > 1"), op.RowPattern("B", "v < PREV(v)")
C = op.RowPattern("C")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (A + B + C, "A B C"),
        (A | B + C, "(A | (B C))"),
        ((A + B).times(2), "(A B){2}"),
        (A.times(2, None), "A{2,}"),
        (A.times(1, 3, reluctant=True) + B, "A{1,3}? B"),
        (A.optional() + B.optional(reluctant=True), "A{0,1} B{0,1}?"),
        (A + B.excluded() + C, "A {- B -} C"),
        (op.RowPattern.permute(A, B + C), "PERMUTE(A, B C)"),
        ((A + B).at_start(), "^ A B"),
        (A.at_end(), "A $"),
        (op.RowPattern("a b"), '"a b"'),
        (op.RowPattern("permute") + op.RowPattern("define"), '"permute" "define"'),
    ],
)
def test_pattern_is_that_of_the_text(built: op.RowPattern, text: str) -> None:
    assert _without_places(parse(built.match().text).pattern) == _without_places(
        parse(f"PATTERN ({text})").pattern
    )


def test_all_clauses_are_built() -> None:
    built = (A + B).match(
        partition_by=["k", "a b"],
        order_by=["at", "v DESC"],
        measures={"low": "MIN(v)", "n": "COUNT(*)"},
        rows="ALL ROWS PER MATCH",
        skip="TO NEXT ROW",
        within="10 minutes",
        subsets={"U": ["A", "B"]},
        rows_max=100,
    )
    text = """
        PARTITION BY k, "a b" ORDER BY at, v DESC
        MEASURES MIN(v) AS low, COUNT(*) AS n
        ALL ROWS PER MATCH AFTER MATCH SKIP TO NEXT ROW
        PATTERN (A B) WITHIN INTERVAL '10' MINUTE
        SUBSET U = (A, B)
        DEFINE A AS v > 1, B AS v < PREV(v)"""
    ours, theirs = parse(built.text), parse(text)
    for name in ours.__struct_fields__:
        if not name.endswith("_at"):
            assert _without_places(getattr(ours, name)) == _without_places(getattr(theirs, name)), name
    assert built.rows_max == 100


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: op.RowPattern(""), "variable is empty"),
        (lambda: A + op.RowPattern("A", "v > 2"), "is both 'v > 1' and 'v > 2'"),
        (lambda: A + cast(Any, "B"), "pattern is 'B'"),
        (op.RowPattern.permute, "has no patterns"),
        (lambda: A.times(cast(Any, "2")), "least is '2'"),
        (lambda: A.match(within="soon"), "within is invalid"),
        (lambda: op.RowPattern("A", "v >").match(), "line 4, column 16"),
    ],
)
def test_invalid_pattern_is_rejected(make: Any, problem: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        make()
    assert problem in str(rejected.value)
