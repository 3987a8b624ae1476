"""Joins of tables beside a query over the current tables: any changes, any split, any restart, at every step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.join_tables import HOW, How
from headrace.operators.tables.join_step import JoinStep
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

LEFT = [pa.field("author", pa.string()), pa.field("post", pa.int64())]
RIGHT = [pa.field("followee", pa.string()), pa.field("user", pa.string())]
LEFT_TYPES, RIGHT_TYPES = [each.type for each in LEFT], [each.type for each in RIGHT]

lefts = st.tuples(st.none() | st.sampled_from("ab"), st.integers(1, 3))
rights = st.tuples(st.none() | st.sampled_from("abc"), st.sampled_from("xyz"))
sided = st.tuples(st.just(0), lefts) | st.tuples(st.just(1), rights)


def join(left: Sequence[Row], right: Sequence[Row], how: How) -> Counter[Row]:
    """As in SQL, one row at a time."""
    found: Counter[Row] = Counter()
    for one in left:
        partners = [other for other in right if one[0] is not None and one[0] == other[0]]
        for other in partners:
            found[*one, *other] += 1
        if not partners and how in ("left", "full"):
            found[*one, None, None] += 1
    for other in right:
        if how == "full" and not any(one[0] is not None and one[0] == other[0] for one in left):
            found[None, None, *other] += 1
    return found


def joined(how: How, *, right: Sequence[pa.Field] = RIGHT) -> Bucket:
    step = JoinStep(left=LEFT, right=right, on=[("author", right[0].name)], keeps=HOW[how])
    return Bucket(step, WeightedLift(step.input_schema))


def input_of(changes: Sequence[Change], how: How, *, bits: int) -> pa.Table:
    """The input of the step: a row with a null key is alone, or dropped if it is not emitted."""
    changes = [
        (weight, (side, row)) for weight, (side, row) in changes if row[0] is not None or HOW[how][side]
    ]
    keys = [row[0] if row[0] is not None else ("alone", side, row) for _, (side, row) in changes]
    of_side = [[row if side == own else (None, None) for _, (side, row) in changes] for own in (0, 1)]
    return pa.table(
        {
            **hash_columns("h", keys, first_bits=bits),
            **hash_columns("r", [row for _, (_, row) in changes], first_bits=bits),
            "weight": weights_of(changes),
            "side": pa.array([side for _, (side, _) in changes], pa.int32()),
            **columns_of(of_side[0], "a", LEFT_TYPES),
            **columns_of(of_side[1], "b", RIGHT_TYPES),
        }
    )


@pytest.mark.parametrize("how", list(HOW))
@given(batches(sided), st.sampled_from([0, 1, 64]), st.data())
def test_the_view_is_always_the_join_of_the_current_tables(
    how: How, batches: list[list[Change]], bits: int, data: st.DataObject
) -> None:
    bucket, tables = joined(how), TablesNow()
    for batch in batches:
        bucket.work(input_of(batch, how, bits=bits))
        tables.change(batch)
        left, right = ([row for side, row in tables.rows if side == own] for own in (0, 1))
        assert bucket.view == join(left, right, how)
        if data.draw(st.booleans()):
            bucket.restart()


def test_a_column_that_both_sides_share_appears_once() -> None:
    bucket = joined("full", right=[LEFT[0], RIGHT[1]])
    batch = [(1, (0, ("ann", 1))), (1, (1, ("ann", "x"))), (1, (0, ("bob", 2))), (1, (1, ("cat", "y")))]
    bucket.work(input_of(batch, "full", bits=64))
    assert bucket.view == Counter([("ann", 1, "x"), ("bob", 2, None), ("cat", None, "y")])


def test_a_change_of_one_row_writes_one_row_however_many_there_are() -> None:
    bucket = joined("left")
    followers = [(1, (1, ("ann", f"user {number}"))) for number in range(1_000)]
    bucket.work(input_of(followers, "left", bits=64))
    emitted = bucket.work(input_of([(1, (0, ("ann", 1)))], "left", bits=64))
    assert len(emitted) == 1_000
    assert len(bucket.table.runs[-1]) == 1


def test_deleted_rows_leave_no_state() -> None:
    bucket = joined("full")
    batch = [(1, (0, ("ann", 1))), (1, (1, ("ann", "x"))), (1, (0, (None, 2)))]
    bucket.work(input_of(batch, "full", bits=64))
    bucket.work(input_of([(-weight, row) for weight, row in batch], "full", bits=64))
    assert not bucket.view
    assert bucket.table.all_rows().num_rows == 0
