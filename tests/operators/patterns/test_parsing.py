"""The text of MATCH_RECOGNIZE: all clauses are read, and an error has its place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.match_recognize import check_pattern
from headrace.operators.patterns.parsing import TEXT_LENGTH_MAX, parse
from headrace.operators.patterns.place import BadPattern
from tests.operators.patterns.oracle import text_of
from tests.operators.patterns.strategies import patterns

A, B, C = (of.Variable(name) for name in "ABC")


def _without_places(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_without_places, value))
    if not hasattr(value, "__struct_fields__"):
        return value
    fields = {name: _without_places(getattr(value, name)) for name in value.__struct_fields__ if name != "at"}
    return type(value)(**fields)


def pattern_of(text: str) -> of.Pattern:
    found: of.Pattern = _without_places(parse(f"PATTERN ({text})").pattern)
    return found


def expression_of(text: str) -> of.Expression:
    found: of.Expression = _without_places(parse(f"PATTERN (A) DEFINE A AS {text}").conditions[0].expression)
    return found


PATTERNS = {
    "": of.Empty(),
    "()": of.Empty(),
    "A": A,
    '"A b"': of.Variable("A b"),
    "`date` date": of.Sequence((of.Variable("date"), of.Variable("date"))),
    "A B C": of.Sequence((A, B, C)),
    "A | B C": of.Alternation((A, of.Sequence((B, C)))),
    "A |": of.Alternation((A, of.Empty())),
    "(A | B) C": of.Sequence((of.Alternation((A, B)), C)),
    "A*": of.Repetition(A, 0, None),
    "A+?": of.Repetition(A, 1, None, False),
    "A??": of.Repetition(A, 0, 1, False),
    "A{3}": of.Repetition(A, 3, 3),
    "A{3,}": of.Repetition(A, 3, None),
    "A{,3}?": of.Repetition(A, 0, 3, False),
    "A{,}": of.Repetition(A, 0, None),
    "A{2,3}": of.Repetition(A, 2, 3),
    "{- A B -} C": of.Sequence((of.Exclusion(of.Sequence((A, B))), C)),
    "^ A $": of.Sequence((of.Anchor(True), A, of.Anchor(False))),
    "PERMUTE(A, B+, (B | C))": of.Permutation((A, of.Repetition(B, 1, None), of.Alternation((B, C)))),
    "A /* a\nnote */ B -- another": of.Sequence((A, B)),
}


@pytest.mark.parametrize("text", PATTERNS)
def test_pattern_is_read(text: str) -> None:
    assert pattern_of(text + "\n") == PATTERNS[text]


@given(patterns)
def test_every_pattern_is_read_as_it_was_written(pattern: of.Pattern) -> None:
    assert text_of(pattern_of(text_of(pattern))) == text_of(pattern)


X, Y, Z = (of.Name((name,)) for name in "xyz")


def _op(function: str, *operands: of.Expression) -> of.Operation:
    return of.Operation(function, operands)


EXPRESSIONS = {
    "x OR y AND NOT z": _op("or", X, _op("and", Y, _op("not", Z))),
    "x + y * z - 1": _op("-", _op("+", X, _op("*", Y, Z)), of.Constant(1)),
    "-x % -2": _op("%", _op("negative", X), of.Constant(-2)),
    "x <> y": _op("<>", X, Y),
    "x != 1.5e3": _op("<>", X, of.Constant(1500.0)),
    "x IS NOT NULL": _op("not", _op("is null", X)),
    "x IS TRUE": _op("is not distinct", X, of.Constant(True)),
    "x IS DISTINCT FROM y": _op("not", _op("is not distinct", X, Y)),
    "x NOT IN (1, y)": _op("not", _op("in", X, of.Constant(1), Y)),
    "x BETWEEN 1 AND y AND z": _op("and", _op("and", _op(">=", X, of.Constant(1)), _op("<=", X, Y)), Z),
    "x LIKE 'a''%' ESCAPE '!'": _op("like", X, of.Constant("a'%"), of.Constant("!")),
    "CASE WHEN x THEN 1 ELSE 2 END = z": _op("=", _op("case", X, of.Constant(1), of.Constant(2)), Z),
    "CASE x WHEN 1 THEN y END": _op("case", _op("=", X, of.Constant(1)), Y, of.Constant(None)),
    "CAST(x AS DECIMAL(10, 2)) || 'a'": _op("||", of.Cast(X, "decimal(10,2)"), of.Constant("a")),
    'A.x > LAST("B".x, 2)': _op(
        ">", of.Name(("A", "x")), of.Call("last", (of.Name(("B", "x")), of.Constant(2)))
    ),
    "FINAL COUNT(A.*) > RUNNING SUM(x)": _op(
        ">", of.Call("count", (), semantics="final", star=("A",)), of.Call("sum", (X,), semantics="running")
    ),
    "COUNT(DISTINCT x) = COUNT(*)": _op(
        "=", of.Call("count", (X,), is_distinct=True), of.Call("count", (), star=())
    ),
    "x > TIMESTAMP '2026-03-01 10:00:00'": _op(">", X, of.Constant(datetime(2026, 3, 1, 10, tzinfo=UTC))),
    "date > DATE '2026-03-01'": _op(">", of.Name(("date",)), of.Constant(date(2026, 3, 1))),
    "x > INTERVAL '10' MINUTE": _op(">", X, of.Constant(timedelta(minutes=10))),
    "x > INTERVAL '1 02:03:04.5' DAY TO SECOND": _op(
        ">", X, of.Constant(timedelta(days=1, hours=2, minutes=3, seconds=4.5))
    ),
    "x > INTERVAL '2:30' MINUTE TO SECOND": _op(">", X, of.Constant(timedelta(minutes=2, seconds=30))),
    "x > INTERVAL '90 seconds'": _op(">", X, of.Constant(timedelta(seconds=90))),
    "x > INTERVAL -1.5 HOURS": _op(">", X, of.Constant(-timedelta(minutes=90))),
    "NULL": of.Constant(None),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression_is_read(text: str) -> None:
    assert expression_of(text) == EXPRESSIONS[text]


def test_all_clauses_are_read() -> None:
    clauses = parse("""match_recognize (
        partition by a, `b c` order by at, n desc, m asc nulls last
        measures first(x) as f, match_number() as number
        all rows per match with unmatched rows after match skip to first B
        pattern (A B+) within interval '2' hour
        subset U = (A, B), V = (B)
        define A as x > 1, B as true)""")
    assert [each.parts for each in clauses.partition_by] == [("a",), ("b c",)]
    assert [(each.column, each.is_descending, each.nulls_first) for each in clauses.order_by] == [
        ("at", False, True),
        ("n", True, False),
        ("m", False, False),
    ]
    assert [each.name for each in clauses.measures] == ["f", "number"]
    assert clauses.rows_per_match == "all with unmatched"
    assert (clauses.skip.to, clauses.skip.variable) == ("to first", "B")
    assert clauses.within_us == 7_200_000_000
    assert [(each.name, each.variables) for each in clauses.subsets] == [("U", ("A", "B")), ("V", ("B",))]
    assert [each.name for each in clauses.conditions] == ["A", "B"]


MODES = {
    "ONE ROW PER MATCH": "one",
    "ALL ROWS PER MATCH": "all show empty",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES": "all show empty",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES": "all omit empty",
}
SKIPS = {
    "PAST LAST ROW": ("past last row", None),
    "TO NEXT ROW": ("to next row", None),
    "TO LAST A": ("to last", "A"),
    "TO A": ("to last", "A"),
}


def test_modes_of_rows_and_skips_are_read() -> None:
    assert {text: parse(f"{text} PATTERN (A)").rows_per_match for text in MODES} == MODES
    skips = {text: parse(f"AFTER MATCH SKIP {text} PATTERN (A)").skip for text in SKIPS}
    assert {text: (each.to, each.variable) for text, each in skips.items()} == SKIPS


ERRORS = {
    "": (1, 1, "the text ends"),
    "PATTERN (A": (1, 11, "the text ends"),
    "PATTERN (A B))": (1, 14, "')' is not possible here"),
    "PATTERN (A # B)": (1, 12, "'#' is not possible here"),
    "PATTERN (A)\nDEFINE A AS x <": (2, 16, "the text ends"),
    "PATTERN (A) DEFINE A x > 1": (1, 22, "'x' is not possible here"),
    "PATTERN (A{3,2})": (1, 11, "the quantifier can't match"),
    "PATTERN (A{0})": (1, 11, "the quantifier can't match"),
    "PATTERN (A{99999})": (1, 11, "99999 is too large"),
    "PATTERN (A) WITHIN INTERVAL '1' MONTH": (1, 33, "a month has no fixed length"),
    "PATTERN (A) WITHIN INTERVAL '0' DAY": (1, 20, "must be positive"),
    "PATTERN (A) WITHIN INTERVAL 'soon'": (1, 29, "is not an interval"),
    "PATTERN (A) WITHIN INTERVAL '9999999999' DAY": (1, 29, "is too large"),
    "PATTERN (A) WITHIN INTERVAL '999999999 00:00:00' DAY TO SECOND": (1, 29, "is too large"),
    "PATTERN (A) DEFINE A AS x > INTERVAL '1e999' DAY": (1, 38, "is too large"),
    "PATTERN (A) DEFINE A AS x LIKE y": (1, 27, "LIKE needs a text"),
    "PATTERN (A) DEFINE A AS x > TIMESTAMP 'noon'": (1, 39, "is not a timestamp"),
    "PATTERN (A) DEFINE A AS x > DATE 'today'": (1, 34, "is not a date"),
    "PATTERN (A) DEFINE A AS x > 99999999999999999999": (1, 29, "does not fit in 64 bits"),
    "ORDER BY x PARTITION BY y PATTERN (A)": (1, 12, "'PARTITION' is not possible here"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_error_has_its_place(text: str) -> None:
    line, column, problem = ERRORS[text]
    with pytest.raises(BadPattern) as rejected:
        parse(text)
    assert (rejected.value.line, rejected.value.column) == (line, column)
    assert problem in rejected.value.message


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("PATTERN (" + "(" * 1_000 + "A" + ")" * 1_000 + ")", 1_009),
        ("PATTERN (A) DEFINE A AS x > " + " + ".join(["1"] * 1_000), None),
        ("PATTERN (A) DEFINE A AS " + "NOT " * 150 + "x", None),
        ("PATTERN (A) DEFINE A AS " + "CASE WHEN x THEN " * 1_000 + "x" + " END" * 1_000, None),
    ],
    ids=["parentheses", "sum", "not", "case"],
)
def test_deep_nesting_is_rejected(text: str, column: int | None) -> None:
    with pytest.raises(BadPattern, match="the nesting is too deep") as rejected:
        check_pattern(text)
    assert column in (None, rejected.value.column)


def test_long_chain_of_conditions_is_not_deep() -> None:
    chain = " OR ".join(f"x = {number} AND y = {number}" for number in range(1_000))
    found = check_pattern(f"PATTERN (A) DEFINE A AS {chain}").conditions[0].expression
    numbers = [each.value for each in _constants(found)]
    assert numbers == [number for number in range(1_000) for _ in "xy"]


def _constants(node: of.Expression) -> Iterator[of.Constant]:
    if isinstance(node, of.Constant):
        yield node
    for each in of.children(node):
        yield from _constants(each)


def test_text_has_a_limit() -> None:
    with pytest.raises(BadPattern, match="characters"):
        parse("PATTERN (A)" + " " * TEXT_LENGTH_MAX)
