"""Expressions: SQL's three-valued logic, the same over columns and over single values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import bind
from headrace.operators.patterns.expressions import (
    BadExpression,
    as_array,
    as_mask,
    compile_scalar,
    conjuncts,
    evaluate,
    like_regex,
)
from headrace.operators.patterns.parsing import parse

TYPES = {
    "i": pa.int64(),
    "j": pa.int32(),
    "f": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "t": pa.timestamp("us", "UTC"),
    "d": pa.date32(),
    "m": pa.decimal128(10, 2),
}


class Values:
    """Leaves that are the columns of a table, or the values of a row."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._table = pa.Table.from_pylist(
            [{**dict.fromkeys(TYPES), **row} for row in rows], pa.schema(list(TYPES.items()))
        )

    def leaf(self, node: of.Expression) -> pa.Array:
        assert isinstance(node, of.Navigation)
        assert isinstance(node.inner, of.Field)
        return self._table.column(node.inner.column).combine_chunks()

    def scalar(self, node: of.Expression) -> Any:
        values = self.leaf(node).to_pylist()
        return lambda row: values[row]


def results(text: str, rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Over columns, and row by row."""
    source = f"MEASURES {text} AS found PATTERN (A)"
    ((_, node),) = bind(source, parse(source), list(TYPES)).measures
    values = Values(rows)
    columns = as_array(evaluate(node, values), len(rows)).to_pylist()
    scalar = compile_scalar(node, values.scalar)
    return columns, [scalar(row) for row in range(len(rows))]


def value(text: str, **row: Any) -> Any:
    """The value of an expression, which must be the same in both ways."""
    (column,), (scalar,) = results(text, [row])
    assert column == scalar or (column != column and scalar != scalar), (column, scalar)
    return column


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CASES: list[tuple[str, Any]] = [
    ("i + 1", 8),
    ("i - j * 2", 1),
    ("i / 2", 3.5),
    ("i / 0", None),
    ("i % 4", 3),
    ("-i % 4", -3),
    ("mod(i, 0)", None),
    ("f % 1", 0.5),
    ("abs(-i)", 7),
    ("-f", -2.5),
    ("i > j AND b", True),
    ("NULL AND FALSE", False),
    ("NULL OR TRUE", True),
    ("(i > NULL) IS NULL", True),
    ("NOT (i > 10)", True),
    ("i IN (1, 7)", True),
    ("i IN (1, NULL)", None),
    ("i NOT IN (1, 2)", True),
    ("i BETWEEN 7 AND 8", True),
    ("s LIKE 'he_l%'", True),
    ("s LIKE 'l%'", False),
    ("s LIKE 'a!%' ESCAPE '!'", False),
    ("s IS DISTINCT FROM NULL", True),
    ("NULL IS NOT DISTINCT FROM NULL", True),
    ("b IS TRUE", True),
    ("CASE WHEN i > 10 THEN 'a' WHEN i > 5 THEN s ELSE 'c' END", "hello"),
    ("CASE i WHEN 7 THEN 1 ELSE 2.5 END", 1),
    ("CASE WHEN i > 10 THEN 1 END", None),
    ("IF(b, i, 0)", 7),
    ("COALESCE(NULL, i, 1)", 7),
    ("NULLIF(i, 7)", None),
    ("GREATEST(i, j, NULL)", 7),
    ("LEAST(i, f)", 2.5),
    ("LOWER('ÀB') || UPPER(s)", "àbHELLO"),
    ("CONCAT(s, i, b)", "hello7true"),
    ("LENGTH(s) + CHAR_LENGTH('é')", 6),
    ("SUBSTRING(s, 2)", "ello"),
    ("SUBSTRING(s, 2, 3)", "ell"),
    ("SUBSTRING(s, -3, 2)", "ll"),
    ("SUBSTRING(s, -3)", "llo"),
    ("SUBSTRING(s, 0, 2)", "he"),
    ("SUBSTR(s, 9)", ""),
    ("TRIM('  a ')", "a"),
    ("ROUND(f)", 3.0),
    ("ROUND(2.345, 2)", 2.35),
    ("FLOOR(f) + CEIL(f)", 5),
    ("SQRT(i + 9)", 4.0),
    ("SQRT(-1)", None),
    ("t > TIMESTAMP '2026-03-01 11:59:59'", True),
    ("t > '2026-03-01 12:00:01'", False),
    ("t - TIMESTAMP '2026-03-01 11:00:00' > INTERVAL '59' MINUTE", True),
    ("t + INTERVAL '1' HOUR", NOON + timedelta(hours=1)),
    ("t - INTERVAL '1' DAY < t", True),
    ("d = DATE '2026-03-01'", True),
    ("d < t", True),
    ("m * 2", Decimal("2.50")),
    ("m > 1.2", True),
    ("m + f", 3.75),
    ("CAST('12' AS BIGINT) + 1", 13),
    ("CAST('x' AS BIGINT)", None),
    ("CAST(f AS INT)", 2),
    ("CAST(i AS STRING)", "7"),
    ("CAST(i AS DOUBLE)", 7.0),
    ("CAST(b AS STRING)", "true"),
    ("CAST('yes' AS BOOLEAN)", None),
    ("CAST('true' AS BOOLEAN)", True),
    ("CAST('2026-03-01T12:00:00Z' AS TIMESTAMP) = t", True),
    ("CAST(t AS DATE)", date(2026, 3, 1)),
    ("CAST('1.005' AS DECIMAL(5, 2))", Decimal("1.01")),
    ("CAST(f + 0.25 AS DECIMAL(5, 1))", Decimal("2.8")),
    ("CAST(m AS DECIMAL(5, 1))", Decimal("1.3")),
    ("CAST(NULL AS DOUBLE)", None),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_value_is_the_same_over_columns_and_over_single_values(text: str, expected: Any) -> None:
    row = {
        "i": 7,
        "j": 3,
        "f": 2.5,
        "s": "hello",
        "b": True,
        "t": NOON,
        "d": date(2026, 3, 1),
        "m": Decimal("1.25"),
    }
    assert value(text, **row) == expected


NULLS = [
    "i + 1",
    "i / j",
    "i % j",
    "-i",
    "i > j",
    "i = i",
    "s || 'a'",
    "NOT b",
    "s LIKE 'a'",
    "LENGTH(s)",
    "t - t",
    "abs(f)",
]


@pytest.mark.parametrize("text", NULLS)
def test_null_gives_null(text: str) -> None:
    assert value(text) is None


_numbers = st.none() | st.integers(-5, 5)
_rows = st.lists(
    st.fixed_dictionaries(
        {
            "i": _numbers,
            "j": _numbers,
            "f": st.none() | st.floats(-4, 4).map(lambda each: round(each, 1)),
            "s": st.none() | st.sampled_from(["", "a", "ab", "b%", "é"]),
            "b": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=6,
)
_values = st.recursive(
    st.sampled_from(["i", "j", "f", "1", "0", "2.5", "NULL"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner)
        | st.builds("COALESCE({}, {})".format, inner, inner)
        | st.builds("ABS({})".format, inner)
    ),
    max_leaves=4,
)
_conditions = st.recursive(
    st.builds("{} {} {}".format, _values, st.sampled_from(["<", "<=", "=", "<>", ">", ">="]), _values)
    | st.sampled_from(
        ["b", "s LIKE 'a%'", "s = 'ab'", "i IN (1, 2, NULL)", "b IS TRUE", "s IS NULL", "NULL"]
    ),
    lambda inner: (
        st.builds("({} AND {})".format, inner, inner)
        | st.builds("({} OR {})".format, inner, inner)
        | st.builds("(NOT {})".format, inner)
        | st.builds("(CASE WHEN {} THEN {} ELSE {} END)".format, inner, inner, inner)
    ),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(_conditions, _rows)
def test_columns_and_single_values_agree(text: str, rows: list[dict[str, Any]]) -> None:
    columns, single = results(text, rows)
    assert columns == single


EXTREMES: list[tuple[str, dict[str, Any], Any]] = [
    ("floor(f)", {"f": math.nan}, None),
    ("ceil(f)", {"f": math.inf}, None),
    ("f % 2", {"f": math.inf}, math.nan),
    ("f % 0.1", {"f": 2.5}, math.fmod(2.5, 0.1)),
    ("i % f", {"i": 3, "f": math.inf}, 3.0),
    ("m % CAST('0.05' AS DECIMAL(5, 2))", {"m": Decimal("1.50")}, 0.0),
    ("round(m) || ''", {"m": Decimal("1.25")}, "1.00"),
    ("-CAST(s AS DECIMAL(38, 1))", {"s": "1" * 30}, Decimal("-" + "1" * 30)),
    ("abs(CAST(s AS DECIMAL(38, 1)))", {"s": "-" + "1" * 30}, Decimal("1" * 30)),
    ("round(CAST(s AS DECIMAL(38, 1)))", {"s": "1" * 30 + ".5"}, Decimal("1" * 29 + "2")),
    ("CAST(s AS DECIMAL(36, 1)) + 0", {"s": "1" * 30}, Decimal("1" * 30)),
    ("CAST(s AS DECIMAL(38, 1)) % 7", {"s": "1" * 30}, 0.0),
    ("CAST(f AS DECIMAL(5, 1))", {"f": math.nan}, None),
    ("greatest(f, 1.0)", {"f": math.nan}, 1.0),
    ("i > 0.5", {"i": 2**63 - 1}, True),
    ("i = f", {"i": 2**53 + 1, "f": 2.0**53}, True),
    ("i / 2", {"i": 2**62 + 1}, 2.0**61),
    ("coalesce(f, i)", {"i": 2**62}, 2.0**62),
    ("i IN (f, 1.5)", {"i": 2**53 + 1, "f": 0.0}, False),
    ("round(m)", {"m": Decimal("0.50")}, 1),
    ("round(m, 1)", {"m": Decimal("-1.55")}, Decimal("-1.6")),
    ("substring(s, -30, 28)", {"s": "hello"}, "hel"),
    ("substring(s, -30, 2)", {"s": "hello"}, ""),
    ("upper(s)", {"s": "straße"}, "STRAẞE"),
    ("t > '2026-03-01'", {"t": datetime(2026, 3, 1, 12, tzinfo=UTC)}, True),
]


@pytest.mark.parametrize(("text", "row", "expected"), EXTREMES, ids=[each[0] for each in EXTREMES])
def test_extreme_values_are_the_same_over_columns_and_over_single_values(
    text: str, row: dict[str, Any], expected: Any
) -> None:
    found = value(text, **row)
    assert found == expected or (found != found and expected != expected)


def test_condition_that_is_unknown_is_not_true() -> None:
    assert as_mask(pa.array([True, False, None]), 3).tolist() == [True, False, False]
    assert as_mask(pa.scalar(None), 2).tolist() == [False, False]


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("i + 1", 2**63 - 1, r"\+ failed on values of type int64 and int64: overflow"),
        ("-i", -(2**63), "NEGATIVE failed on values of type int64: overflow"),
        ("abs(i)", -(2**63), "ABS failed on values of type int64: overflow"),
    ],
)
def test_overflow_is_an_error_that_names_the_expression(text: str, value: int, shown: str) -> None:
    with pytest.raises(BadExpression, match=shown):
        results(text, [{"i": value}])
    source = f"MEASURES {text} AS found PATTERN (A)"
    ((_, node),) = bind(source, parse(source), list(TYPES)).measures
    with pytest.raises(HeadraceError, match="does not fit in 64 bits"):
        compile_scalar(node, Values([{"i": value}]).scalar)(0)


def test_pattern_of_like_is_escaped() -> None:
    assert like_regex("a.%!%_", "!") == r"a\..*%."


def test_condition_is_split_at_and() -> None:
    parsed = parse("PATTERN (A) DEFINE A AS x AND (y OR z) AND NOT x").conditions[0].expression
    assert [type(each).__name__ for each in conjuncts(parsed)] == ["Name", "Operation", "Operation"]


def test_not_a_number_is_a_value() -> None:
    assert math.isnan(value("f * 1", f=math.nan))
