"""The newest rows of a key beside a sort of the current rows, at every step; and the size of the state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.state.step import advance
from headrace.operators.tables.newest_order import SortTerm
from headrace.operators.tables.newest_step import NewestLift, NewestStep
from headrace.operators.tables.weighted import WeightedLift
from tests.operators.tables.changelogs import (
    NOW,
    Bucket,
    Change,
    Row,
    TablesNow,
    batches,
    columns_of,
    comparable,
    hash_columns,
    weights_of,
)

COLUMNS = [pa.field("user", pa.string()), pa.field("at", pa.int64()), pa.field("post", pa.string())]

rows = st.tuples(st.none() | st.sampled_from("ab"), st.none() | st.integers(1, 6), st.sampled_from("xyz"))


NEWEST_FIRST = (SortTerm("at"), SortTerm("post"))


def newest(
    count: int,
    keep: int | None = None,
    order: Sequence[SortTerm] = NEWEST_FIRST,
    rank: str | None = None,
    columns: Sequence[pa.Field] = COLUMNS,
) -> Bucket:
    step = NewestStep(columns=columns, by=["user"], order=order, count=count, rank=rank, keep=keep)
    return Bucket(step, WeightedLift(step.input_schema))


def input_of(changes: Sequence[Change], *, bits: int = 64, columns: Sequence[pa.Field] = COLUMNS) -> pa.Table:
    there = [row for _, row in changes]
    return pa.table(
        {
            **hash_columns("h", [row[0] for row in there], first_bits=bits),
            **hash_columns("r", there, first_bits=bits),
            "weight": weights_of(changes),
            "is_mark": pa.array([False] * len(there), pa.bool_()),
            **columns_of(there, "c", [each.type for each in columns]),
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
        bucket.work(input_of(batch, bits=bits))
        tables.change(batch)
        assert bucket.view == newest_of(tables.rows, count)
        if data.draw(st.booleans()):
            bucket.restart()


FLOATS = [COLUMNS[0], pa.field("score", pa.float64()), COLUMNS[2]]
scored = st.tuples(
    st.sampled_from("ab"), st.sampled_from([None, math.nan, -math.inf, 0.5, 2.0]), st.sampled_from("xyz")
)
terms = st.builds(SortTerm, st.just("score"), st.booleans(), st.booleans())
post_terms = st.builds(SortTerm, st.just("post"), st.booleans(), st.booleans())


def ranked(there: Sequence[Row], order: Sequence[SortTerm], count: int) -> Counter[Row]:
    """Each row with its number in the order of its user."""
    found: Counter[Row] = Counter()
    for user in {row[0] for row in there}:
        of_user = [row for row in there if row[0] == user]
        for term in reversed(order):
            column = 1 if term.name == "score" else 2
            nulls = [row for row in of_user if row[column] is None]
            values = [row for row in of_user if row[column] is not None]
            values.sort(key=lambda row: _nan_last(row[column]), reverse=term.is_descending)
            of_user = [*nulls, *values] if term.nulls_first else [*values, *nulls]
        found.update((*map(comparable, row), rank) for rank, row in enumerate(of_user[:count], start=1))
    return found


def _nan_last(value: float | str) -> tuple[bool, float | str]:
    return (True, 0.0) if isinstance(value, float) and math.isnan(value) else (False, value)


@given(batches(scored), terms, post_terms, st.integers(1, 4), st.data())
def test_the_rank_follows_every_change_in_any_order(
    batches: list[list[Change]], score: SortTerm, post: SortTerm, count: int, data: st.DataObject
) -> None:
    bucket, tables = newest(count, order=(score, post), rank="rank", columns=FLOATS), TablesNow()
    for batch in batches:
        bucket.work(input_of(batch, columns=FLOATS))
        tables.change(batch)
        assert bucket.view == ranked(tables.rows, (score, post), count)
        if data.draw(st.booleans()):
            bucket.restart()


@given(
    st.lists(st.lists(rows, max_size=15), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(0, 3),
    st.sampled_from([0, 1, 64]),
    st.data(),
)
def test_rows_that_the_state_would_not_store_are_dropped_before_the_shuffle(
    batches: list[list[Row]], count: int, spare: int, bits: int, data: st.DataObject
) -> None:
    keep = count + spare
    one, other = newest(count, keep), newest(count, keep)
    lift = NewestLift(cast("NewestStep", other.step))
    for batch in batches:
        cut = data.draw(st.integers(0, len(batch)))
        tasks = [input_of([(1, row) for row in part], bits=bits) for part in (batch[:cut], batch[cut:])]
        lifted = [lift(task) for task in tasks]
        for (kept, hashes), task in zip(lifted, tasks, strict=True):
            users = Counter(kept.column("c0").to_pylist())
            assert all(each <= keep + 1 for each in users.values())
            known = dict(zip(task.column("c0").to_pylist(), task.column("h1").to_pylist(), strict=True))
            assert hashes.view("int64").tolist() == [known[user] for user in kept.column("c0").to_pylist()]
        whole = advance(one.step, one.table, pa.concat_tables([one.lift(each)[0] for each in tasks]), NOW)
        less = advance(other.step, other.table, pa.concat_tables([each for each, _ in lifted]), NOW)
        one.table, other.table = whole.table, less.table
        assert less.result.output.equals(whole.result.output)
        assert other.table.all_rows().equals(one.table.all_rows())


class BoundedOracle:
    """The stored rows of each user: those that are newer than the mark, no more than `keep` after each batch."""

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
            dropped = [row for row in there if row[0] == user][self._keep :]
            # A row that occurs several times is kept or dropped as a whole.
            first = next(
                (row for row in there if row[0] == user and self._rank(there, row) >= self._keep), None
            )
            if dropped and first is not None:
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
        bucket.work(input_of(batch))
        assert bucket.view == newest_of(oracle.change(batch), count)
        if data.draw(st.booleans()):
            bucket.restart()


def test_keep_bounds_the_state_and_replaces_deleted_rows() -> None:
    bucket = newest(3, keep=6)
    for at in range(1, 101):
        bucket.work(input_of([(1, ("ann", at, "x"))]))
        assert bucket.table.all_rows().num_rows <= 7, "six rows and a mark"
    for at in (100, 99, 98):
        bucket.work(input_of([(-1, ("ann", at, "x"))]))
    assert bucket.view == Counter([("ann", at, "x") for at in (97, 96, 95)])
    bucket.work(input_of([(-1, ("ann", 97, "x")), (-1, ("ann", 50, "x")), (1, ("ann", 51, "y"))]))
    assert bucket.view == Counter([("ann", at, "x") for at in (96, 95)]), "the others are deleted"


def test_a_row_that_is_not_in_the_view_emits_nothing() -> None:
    bucket = newest(2)
    bucket.work(input_of([(1, ("ann", at, "x")) for at in (5, 6)]))
    assert bucket.work(input_of([(1, ("ann", 1, "x"))])) == []
    assert bucket.work(input_of([(-1, ("ann", 1, "x"))])) == []
    assert bucket.table.all_rows().num_rows == 2


def test_a_row_that_passes_another_changes_only_the_ranks_between() -> None:
    bucket = newest(4, rank="rank")
    bucket.work(input_of([(1, ("ann", at, "x")) for at in (1, 3, 5)]))
    assert bucket.work(input_of([(1, ("ann", 4, "x"))])) == [
        ("ann", 3, "x", 2, "-"),
        ("ann", 1, "x", 3, "-"),
        ("ann", 4, "x", 2, "+"),
        ("ann", 3, "x", 3, "+"),
        ("ann", 1, "x", 4, "+"),
    ]


def test_equal_rows_have_a_rank_each() -> None:
    bucket = newest(2, rank="rank")
    assert bucket.work(input_of([(1, ("ann", 1, "x"))] * 3)) == [
        ("ann", 1, "x", 1, "+"),
        ("ann", 1, "x", 2, "+"),
    ]
