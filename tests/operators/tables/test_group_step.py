"""Groups over a changelog beside aggregates over the rows that are there, at every step."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.folds import CountFold, DeviationFold, ExtremeFold, Fold, MeanFold, SumFold
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
# Sums of halves are exact, so that the order in which they are added makes no difference.
halves = st.sampled_from([-1.5, 0.0, 0.5, 2.0, math.inf, -math.inf, math.nan])
float_rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | halves)


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


def came(changes: Sequence[Change], kind: pa.DataType, *, bits: int = 64) -> pa.Table:
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
    """NaN is the same as NaN here, and digits beyond the tenth are those of the order of adding."""
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
        bucket.work(came(batch, INTEGER))
        tables.change(batch)
        assert bucket.view == grouped(tables.rows, with_values=False)
        if data.draw(st.booleans()):
            bucket.restart()
    bucket.work(came([(-1, row) for row in tables.rows], INTEGER))
    assert (not bucket.view, bucket.table.all_rows().num_rows) == (True, 0)


@given(batches(rows), st.sampled_from([0, 1, 64]), st.data())
def test_aggregates_that_need_the_values_always_match_the_current_rows(
    batches: list[list[Change]], bits: int, data: st.DataObject
) -> None:
    bucket, tables = values(INTEGER), TablesNow()
    for batch in batches:
        bucket.work(came(batch, INTEGER, bits=bits))
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
        bucket.work(came(batch, NUMBER))
        tables.change(batch)
        assert rounded(bucket.view) == rounded(grouped(tables.rows, with_values=False))


@pytest.mark.parametrize("make", [totals, lambda: values(INTEGER)])
def test_an_unchanged_group_emits_nothing(make: Any) -> None:
    bucket = make()
    bucket.work(came([(1, ("a", 1)), (1, ("b", 2))], INTEGER))
    said = bucket.work(came([(1, ("a", 5)), (-1, ("a", 5)), (1, ("b", 3))], INTEGER))
    assert {row[0] for row in said} == {"b"}
    assert [row[-1] for row in said] == ["-", "+"]
