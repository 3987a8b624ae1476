"""The newest rows of a key beside sorting all that are there, at every step; and how much is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.tables.newest_step import NewestStep
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

COLUMNS = [pa.field("user", pa.string()), pa.field("at", pa.int64()), pa.field("post", pa.string())]

rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.integers(1, 6), st.sampled_from("xyz"))


def newest(count: int, keep: int | None = None) -> Bucket:
    step = NewestStep(columns=COLUMNS, by=["user"], order=["at", "post"], count=count, keep=keep)
    return Bucket(step, WeightedLift(step.input_schema))


def came(changes: Sequence[Change], *, bits: int = 64) -> pa.Table:
    there = [row for _, row in changes]
    return pa.table(
        {
            **hash_columns("h", [row[0] for row in there], first_bits=bits),
            **hash_columns("r", there, first_bits=bits),
            "weight": weights_of(changes),
            "is_mark": pa.array([False] * len(there), pa.bool_()),
            **columns_of(there, "c", [each.type for each in COLUMNS]),
        }
    )


def by_age(row: Row) -> tuple[int, str]:
    """Greater is newer."""
    return (row[1] or 0, row[2])


def newest_of(there: Sequence[Row], count: int) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for user in {row[0] for row in there}:
        of_user = sorted((row for row in there if row[0] == user), key=by_age, reverse=True)
        found.update(of_user[:count])
    return found


@given(batches(rows), st.integers(1, 4), st.sampled_from([0, 1, 64]), st.data())
def test_the_view_is_always_the_newest_of_the_current_rows(
    batches: list[list[Change]], count: int, bits: int, data: st.DataObject
) -> None:
    bucket, tables = newest(count), TablesNow()
    for batch in batches:
        bucket.work(came(batch, bits=bits))
        tables.change(batch)
        assert bucket.view == newest_of(tables.rows, count)
        if data.draw(st.booleans()):
            bucket.restart()


class BoundedOracle:
    """What is known of each user: the rows that are newer than the mark, no more than `keep` after each batch."""

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._marks: dict[str | None, tuple[int, str]] = {}
        self._weights: Counter[Row] = Counter()

    def change(self, changes: Sequence[Change]) -> list[Row]:
        for weight, row in changes:
            if by_age(row) > self._marks.get(row[0], (-1, "")):
                self._weights[row] += weight
        there = sorted((+self._weights).elements(), key=by_age, reverse=True)
        for user in {row[0] for row in there}:
            forgotten = [row for row in there if row[0] == user][self._keep :]
            # A row that is there several times is kept or forgotten as a whole.
            first = next(
                (row for row in there if row[0] == user and self._rank(there, row) >= self._keep), None
            )
            if forgotten and first is not None:
                self._marks[user] = by_age(first)
        for row in list(self._weights):
            if by_age(row) <= self._marks.get(row[0], (-1, "")):
                del self._weights[row]
        return there

    def _rank(self, there: list[Row], row: Row) -> int:
        return sum(1 for each in there if each[0] == row[0] and by_age(each) > by_age(row))


@given(batches(rows), st.integers(1, 3), st.integers(0, 3), st.data())
def test_rows_beyond_keep_are_deleted(
    batches: list[list[Change]], count: int, more: int, data: st.DataObject
) -> None:
    bucket, oracle = newest(count, keep=count + more), BoundedOracle(count + more)
    for batch in batches:
        bucket.work(came(batch))
        assert bucket.view == newest_of(oracle.change(batch), count)
        if data.draw(st.booleans()):
            bucket.restart()


def test_keep_bounds_the_state_and_replaces_deleted_rows() -> None:
    bucket = newest(3, keep=6)
    for at in range(1, 101):
        bucket.work(came([(1, ("ann", at, "x"))]))
        assert bucket.table.all_rows().num_rows <= 7, "six rows and a mark"
    for at in (100, 99, 98):
        bucket.work(came([(-1, ("ann", at, "x"))]))
    assert bucket.view == Counter([("ann", at, "x") for at in (97, 96, 95)])
    bucket.work(came([(-1, ("ann", 97, "x")), (-1, ("ann", 50, "x")), (1, ("ann", 51, "y"))]))
    assert bucket.view == Counter([("ann", at, "x") for at in (96, 95)]), "the others are forgotten"


def test_a_row_that_is_not_in_the_view_emits_nothing() -> None:
    bucket = newest(2)
    bucket.work(came([(1, ("ann", at, "x")) for at in (5, 6)]))
    assert bucket.work(came([(1, ("ann", 1, "x"))])) == []
    assert bucket.work(came([(-1, ("ann", 1, "x"))])) == []
    assert bucket.table.all_rows().num_rows == 2
