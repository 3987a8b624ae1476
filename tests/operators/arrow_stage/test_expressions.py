"""The evaluation of expressions on Arrow tables; `test_translate` compares their results with Spark's."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headrace.operators.arrow_stage.expressions import (
    And,
    Arithmetic,
    Coalesce,
    Column,
    Compare,
    Concat,
    Constant,
    Defined,
    Divide,
    Doubtful,
    Expression,
    If,
    IsNull,
    Narrow,
    Not,
    Or,
    Rows,
    XxHash64,
    columns_of,
    evaluate,
)
from headrace.operators.xxhash import SEED

LONG, BOOL = pa.int64(), pa.bool_()
MS = Column("ms")
MOST = 2**63 - 1
TWICE = Arithmetic(MS, Constant(2, LONG), "multiply", is_checked=True)
IS_SMALL = Compare(MS, Constant(100, LONG), "less")


def long(value: int | None) -> Constant:
    return Constant(value, LONG)


def table(*values: int | None) -> pa.Table:
    return pa.table({"ms": pa.chunked_array([pa.array(values, LONG)])})


def test_constant_is_repeated_for_each_row() -> None:
    assert evaluate(Constant("x", pa.string()), table(1, 2)).to_pylist() == ["x", "x"]
    assert evaluate(Constant(None, pa.list_(LONG)), table(1, 2)).to_pylist() == [None, None]
    assert evaluate(Constant(0, pa.timestamp("us", tz="UTC")), table()).to_pylist() == []


def test_chunks_of_a_column_are_one_array() -> None:
    chunks = pa.table({"ms": pa.chunked_array([[1], [], [None, 3]], LONG)})
    assert evaluate(MS, chunks).to_pylist() == [1, None, 3]


@pytest.mark.parametrize(
    "expression",
    [
        TWICE,
        And(Not(IsNull(MS)), Compare(TWICE, long(0), "less")),
        Narrow(MS, pa.int32()),
        Divide(Constant(1.0, pa.float64()), Constant(0.0, pa.float64())),
        If(IsNull(MS), long(0), TWICE, LONG),
        Coalesce((TWICE, long(0)), LONG),
    ],
)
def test_value_on_which_spark_fails_is_doubtful(expression: Expression) -> None:
    assert expression.can_fail
    with pytest.raises(Doubtful):
        evaluate(expression, table(1, MOST))


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        (And(IS_SMALL, Compare(TWICE, long(3), "greater")), [False, False, None, True]),
        (Or(Not(IS_SMALL), Compare(TWICE, long(3), "greater")), [False, True, None, True]),
        (If(IS_SMALL, TWICE, long(-1), LONG), [2, -1, -1, 98]),
        (If(Not(IS_SMALL), long(-1), TWICE, LONG), [2, -1, None, 98]),
        (Coalesce((If(IS_SMALL, long(None), long(-1), LONG), TWICE), LONG), [2, -1, -1, 98]),
        (If(Constant(False, BOOL), TWICE, MS, LONG), [1, MOST, None, 49]),
        (And(Constant(False, BOOL), Compare(TWICE, long(3), "less")), [False] * 4),
        (Or(Constant(True, BOOL), Compare(TWICE, long(3), "less")), [True] * 4),
    ],
)
def test_operand_is_evaluated_only_where_spark_needs_it(
    expression: Expression, found: list[int | None]
) -> None:
    assert evaluate(expression, table(1, MOST, None, 49)).to_pylist() == found


def test_an_expression_is_evaluated_once() -> None:
    rows = Rows(table(1, 2), definitions=[TWICE])
    assert rows.value(Arithmetic(MS, Constant(2, LONG), "multiply", is_checked=True)) is rows.value(TWICE)
    assert rows.value(Defined(0)) is rows.value(TWICE)


def test_definitions_are_known_where_rows_are_chosen() -> None:
    rows = Rows(table(1, MOST), definitions=[TWICE])
    chosen = If(IS_SMALL, Defined(0, fails=True), MS, LONG)
    assert rows.array(chosen).to_pylist() == [2, MOST]


def test_hash_of_constants_is_a_constant() -> None:
    hashed = XxHash64((Constant("headrace", pa.string()), Constant(None, LONG)), SEED)
    assert isinstance(Rows(table(1, 2)).value(hashed), pa.Scalar)
    assert len(set(evaluate(hashed, table(1, 2)).to_pylist())) == 1
    assert evaluate(XxHash64((MS,), SEED), table(None, None)).to_pylist() == [SEED, SEED]


def test_expressions_are_pickled_and_compared() -> None:
    expression = If(IsNull(MS), XxHash64((MS, Constant("é", pa.string())), SEED), TWICE, LONG)
    assert pickle.loads(pickle.dumps(expression)) == expression
    assert Defined(1) != Defined(2)


def test_columns_of_expressions_include_those_of_definitions() -> None:
    definitions = [TWICE, Concat((Column("user"), Column("url")))]
    assert columns_of([Defined(0), IsNull(MS)], definitions) == ["ms"]
    assert set(columns_of([If(IsNull(MS), Defined(1), Defined(1), pa.string())], definitions)) == {
        "ms",
        "user",
        "url",
    }
    assert columns_of([Constant(1, LONG)], definitions) == []
