"""Groups over a changelog beside aggregates over the current rows, at every step."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.folds import (
    CountDistinctFold,
    CountFold,
    DecimalMeanFold,
    DecimalSumFold,
    DeviationFold,
    ExtremeFold,
    Fold,
    MeanFold,
    SumFold,
    TimedExtremeFold,
)
from headrace.operators.tables.group_step import TotalsLift, TotalsStep, ValuesStep, total_of
from headrace.operators.tables.weighted import WeightedLift
from tests.operators.tables.changelogs import (
    Bucket,
    Change,
    Row,
    TablesNow,
    batches,
    columns_of,
    hash_columns,
    weights_of,
)

KEYS = [pa.field("city", pa.string())]
INTEGER = pa.int64()
NUMBER = pa.float64()

rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.integers(-3, 3))
# Sums of halves are exact, so that they do not depend on the order of addition.
halves = st.sampled_from([-1.5, 0.0, 0.5, 2.0, math.inf, -math.inf, math.nan])
float_rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | halves)


DECIMAL = pa.decimal128(20, 2)
cents = st.integers(-(10**20) + 1, 10**20 - 1).map(lambda each: Decimal(each).scaleb(-2))
decimal_rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | cents)


def decimals(folds: list[tuple[str, Fold]], *, needs_values: bool) -> Bucket:
    if needs_values:
        step = ValuesStep(keys=KEYS, folds=folds, values=[(number, DECIMAL) for number in range(3)])
        return Bucket(step, WeightedLift(step.input_schema))
    totals = TotalsStep(keys=KEYS, folds=folds)
    return Bucket(totals, TotalsLift(totals))


def decimal_input(changes: Sequence[Change]) -> pa.Table:
    given = input_of(changes, DECIMAL)
    return given.append_column("a0", given.column("a1"))


def sums_of_decimals(there: Sequence[Row]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for city in {row[0] for row in there}:
        known = [row[1] for row in there if row[0] == city and row[1] is not None]
        with localcontext(prec=60):
            total = sum(known) if known else None
            mean = total / len(known) if total is not None else None
            exact = None if mean is None else mean.quantize(Decimal("0.000001"), ROUND_HALF_UP)
        found[city, len(known), total, exact] += 1
    return found


def totals() -> Bucket:
    mean = total_of(MeanFold(), INTEGER)
    assert mean is not None
    folds: list[tuple[str, Fold]] = [
        ("rows", CountFold()),
        ("known", CountFold()),
        ("total", SumFold(INTEGER)),
        ("mean", mean),
    ]
    step = TotalsStep(keys=KEYS, folds=folds)
    return Bucket(step, TotalsLift(step))


def values(kind: pa.DataType) -> Bucket:
    folds: list[tuple[str, Fold]] = [
        ("rows", CountFold()),
        ("known", CountFold()),
        ("total", SumFold(kind)),
        ("mean", MeanFold()),
        ("least", ExtremeFold(kind, greatest=False)),
        ("most", ExtremeFold(kind, greatest=True)),
        ("spread", DeviationFold()),
    ]
    step = ValuesStep(keys=KEYS, folds=folds, values=[(number, kind) for number in range(1, 7)])
    return Bucket(step, WeightedLift(step.input_schema))


def input_of(changes: Sequence[Change], kind: pa.DataType, *, bits: int = 64) -> pa.Table:
    given = [row[1] for _, row in changes]
    return pa.table(
        {
            **hash_columns("h", [row[0] for _, row in changes], first_bits=bits),
            **hash_columns("r", given, first_bits=bits),
            "weight": weights_of(changes),
            **columns_of([row for _, row in changes], "k", [pa.string()]),
            **{f"a{number}": pa.array(given, kind) for number in range(1, 7)},
        }
    )


def grouped(there: Sequence[Row], *, with_values: bool) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for city in {row[0] for row in there}:
        given = [row[1] for row in there if row[0] == city]
        known = [each for each in given if each is not None]
        result: list[Any] = [city, len(given), len(known), sum(known) if known else None]
        result.append(sum(known) / len(known) if known else None)
        if with_values:
            result += [min(known, default=None), max(known, default=None)]
            result.append(statistics.stdev(known) if len(known) > 1 else None)
        found[tuple(result)] += 1
    return found


def rounded(view: Counter[Row]) -> Counter[Row]:
    """NaN is the same as NaN here, and digits beyond the tenth depend on the order of addition."""
    return Counter(
        {
            tuple(str(round(each, 10)) if isinstance(each, float) else each for each in row): count
            for row, count in view.items()
        }
    )


@given(batches(rows, in_order=True), st.data())
def test_totals_always_match_the_current_rows(batches: list[list[Change]], data: st.DataObject) -> None:
    bucket, tables = totals(), TablesNow()
    for batch in batches:
        bucket.work(input_of(batch, INTEGER))
        tables.change(batch)
        assert bucket.view == grouped(tables.rows, with_values=False)
        if data.draw(st.booleans()):
            bucket.restart()
    bucket.work(input_of([(-1, row) for row in tables.rows], INTEGER))
    assert (not bucket.view, bucket.table.all_rows().num_rows) == (True, 0)


@pytest.mark.parametrize("needs_values", [False, True])
@given(batches(decimal_rows, in_order=True), st.data())
def test_sums_of_decimals_always_match_the_current_rows(
    needs_values: bool, batches: list[list[Change]], data: st.DataObject
) -> None:
    folds: list[tuple[str, Fold]] = [
        ("known", CountFold()),
        ("total", DecimalSumFold(DECIMAL, is_strict=True)),
        ("mean", DecimalMeanFold(DECIMAL, is_strict=True)),
    ]
    bucket, tables = decimals(folds, needs_values=needs_values), TablesNow()
    for batch in batches:
        bucket.work(decimal_input(batch))
        tables.change(batch)
        assert bucket.view == sums_of_decimals(tables.rows)
        if data.draw(st.booleans()):
            bucket.restart()
    bucket.work(decimal_input([(-1, row) for row in tables.rows]))
    assert (not bucket.view, bucket.table.all_rows().num_rows) == (True, 0)


@given(batches(rows), st.sampled_from([0, 1, 64]), st.data())
def test_aggregates_that_need_the_values_always_match_the_current_rows(
    batches: list[list[Change]], bits: int, data: st.DataObject
) -> None:
    bucket, tables = values(INTEGER), TablesNow()
    for batch in batches:
        bucket.work(input_of(batch, INTEGER, bits=bits))
        tables.change(batch)
        assert rounded(bucket.view) == rounded(grouped(tables.rows, with_values=True))
        if data.draw(st.booleans()):
            bucket.restart()


@given(batches(float_rows, in_order=True))
def test_retracted_floats_leave_no_rounding_error(batches: list[list[Change]]) -> None:
    folds: list[tuple[str, Fold]] = [("rows", CountFold()), ("known", CountFold())]
    folds += [("total", SumFold(NUMBER)), ("mean", MeanFold())]
    step = ValuesStep(keys=KEYS, folds=folds, values=[(number, NUMBER) for number in range(1, 4)])
    bucket, tables = Bucket(step, WeightedLift(step.input_schema)), TablesNow()
    for batch in batches:
        bucket.work(input_of(batch, NUMBER))
        tables.change(batch)
        assert rounded(bucket.view) == rounded(grouped(tables.rows, with_values=False))


TIMED = pa.struct([("time", pa.int64()), ("value", INTEGER)])
timed_rows = st.tuples(
    st.sampled_from("ab"),
    st.none() | st.fixed_dictionaries({"time": st.integers(0, 3), "value": st.integers(-3, 3)}),
).map(lambda row: (row[0], None if row[1] is None else (row[1]["time"], row[1]["value"])))


@given(batches(timed_rows), st.data())
def test_distinct_counts_and_the_first_and_last_value_always_match_the_current_rows(
    batches: list[list[Change]], data: st.DataObject
) -> None:
    folds: list[tuple[str, Fold]] = [
        ("kinds", CountDistinctFold(INTEGER)),
        ("first", TimedExtremeFold(TIMED, last=False)),
        ("last", TimedExtremeFold(TIMED, last=True)),
    ]
    step = ValuesStep(keys=KEYS, folds=folds, values=[(0, INTEGER), (1, TIMED), (2, TIMED)])
    bucket, tables = Bucket(step, WeightedLift(step.input_schema)), TablesNow()
    for batch in batches:
        given = [row[1] for _, row in batch]
        timed = pa.array([each and {"time": each[0], "value": each[1]} for each in given], TIMED)
        values = pa.array([each and each[1] for each in given], INTEGER)
        own = {"a0": values, "a1": timed, "a2": timed}
        table = input_of(batch, pa.list_(INTEGER)).drop_columns([f"a{number}" for number in range(1, 7)])
        for name, column in own.items():
            table = table.append_column(name, column)
        bucket.work(table)
        tables.change(batch)
        expected: Counter[Row] = Counter()
        for city in {row[0] for row in tables.rows}:
            known = sorted(row[1] for row in tables.rows if row[0] == city and row[1] is not None)
            edges = (known[0][1], known[-1][1]) if known else (None, None)
            expected[city, len({value for _, value in known}), *edges] += 1
        assert bucket.view == expected
        if data.draw(st.booleans()):
            bucket.restart()


@pytest.mark.parametrize("create", [totals, lambda: values(INTEGER)])
def test_an_unchanged_group_emits_nothing(create: Any) -> None:
    bucket = create()
    bucket.work(input_of([(1, ("a", 1)), (1, ("b", 2))], INTEGER))
    emitted = bucket.work(input_of([(1, ("a", 5)), (-1, ("a", 5)), (1, ("b", 3))], INTEGER))
    assert {row[0] for row in emitted} == {"b"}
    assert [row[-1] for row in emitted] == ["-", "+"]
