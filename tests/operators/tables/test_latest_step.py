"""Changes by key become a changelog, in any order of arrival, and with duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.tables.latest_step import UNKNOWN_VALUE, LatestLift, LatestStep
from tests.operators.tables.changelogs import Bucket, columns_of, hash_columns, hash_of

COLUMNS = [pa.field("id", pa.string()), pa.field("name", pa.string())]
ORDER = [pa.field("version", pa.int64())]
KeyChange = tuple[str, int | None, str | None]
"""A key, the version of the change, and the name, or None if the row is deleted."""


def table_of(changes: Sequence[KeyChange]) -> pa.Table:
    rows = [(key, name) for key, _, name in changes]
    return pa.table(
        {
            **hash_columns("h", [key for key, _, _ in changes]),
            "row_hash": pa.array([hash_of(row, 1) for row in rows], pa.int64()),
            "is_deleted": pa.array([name is None for _, _, name in changes], pa.bool_()),
            "o0": pa.array([version for _, version, _ in changes], pa.int64()),
            **columns_of(rows, "c", [each.type for each in COLUMNS]),
        }
    )


def latest(*, keeps_deleted: bool = True) -> Bucket:
    step = LatestStep(columns=COLUMNS, key=["id"], order=ORDER, keeps_deleted=keeps_deleted)
    return Bucket(step, LatestLift(step))


def rows_now(changes: Sequence[KeyChange]) -> Counter[tuple[Any, ...]]:
    """One at a time, by version."""
    by_version = sorted(changes, key=lambda change: -1 if change[1] is None else change[1])
    now = {key: name for key, _, name in by_version}
    return Counter((key, name) for key, name in now.items() if name is not None)


@st.composite
def histories(draw: st.DrawFn) -> list[KeyChange]:
    """Every change has a version of its own; some have none, and sort before all others of their key."""
    keys = draw(st.lists(st.sampled_from("abc"), max_size=20))
    names = st.none() | st.sampled_from(["x", "y"])
    changes: list[KeyChange] = [(key, number, draw(names)) for number, key in enumerate(keys)]
    if draw(st.booleans()):
        changes.append(("a", None, "from before"))
    return changes


@given(histories(), st.data())
def test_reordered_and_duplicate_changes_give_the_current_rows(
    history: list[KeyChange], data: st.DataObject
) -> None:
    repeated = data.draw(st.lists(st.sampled_from(history), max_size=5)) if history else []
    arriving = data.draw(st.permutations([*history, *repeated]))
    bucket = latest()
    done: list[KeyChange] = []
    while arriving:
        size = data.draw(st.integers(1, len(arriving)))
        batch, arriving = arriving[:size], arriving[size:]
        done += batch
        bucket.work(table_of(batch))
        assert bucket.view == rows_now(done)
        if data.draw(st.booleans()):
            bucket.restart()


@given(histories(), st.data())
def test_ordered_changes_need_no_state_of_deleted_keys(history: list[KeyChange], data: st.DataObject) -> None:
    history = [change for change in history if change[1] is not None]
    bucket = latest(keeps_deleted=False)
    done = 0
    while done < len(history):
        size = data.draw(st.integers(1, 5))
        bucket.work(table_of(history[done : done + size]))
        done += size
        assert bucket.view == rows_now(history[:done])
        assert bucket.table.all_rows().num_rows == len(bucket.view)


def test_a_change_without_effect_emits_nothing() -> None:
    bucket = latest()
    assert bucket.work(table_of([("a", 1, "x")])) == [("a", "x", "+")]
    assert bucket.work(table_of([("a", 2, "x")])) == []
    assert bucket.work(table_of([("a", 4, None), ("a", 3, "y")])) == [("a", "x", "-")]
    assert bucket.work(table_of([("a", 3, "y")])) == [], "it is older than the deletion"
    assert bucket.work(table_of([("a", 5, "x")])) == [("a", "x", "+")]


def test_of_two_changes_equal_in_order_the_same_one_wins_in_any_order_of_arrival() -> None:
    one, other = latest(), latest()
    first, second = ("a", 1, "x"), ("a", 1, "y")
    one.work(table_of([first]))
    one.work(table_of([second]))
    other.work(table_of([second]))
    other.work(table_of([first]))
    assert one.view == other.view
    assert sum(one.view.values()) == 1


def test_a_row_wins_over_a_deletion_that_is_equal_in_order() -> None:
    bucket = latest()
    bucket.work(table_of([("a", 1, None), ("a", 1, "x")]))
    assert bucket.view == Counter([("a", "x")])


WIDE = [*COLUMNS, pa.field("body", pa.string())]
SAME = "same"
"""Stands for a body that the change lacks, because it did not change it."""
WideChange = tuple[str, str | None, str | None]
"""A key, the name or None if the row is deleted, and the body."""


def wide_table_of(changes: Sequence[tuple[int, WideChange]]) -> pa.Table:
    rows = [(key, name, None if body == SAME else body) for _, (key, name, body) in changes]
    return pa.table(
        {
            **hash_columns("h", [row[0] for row in rows]),
            "row_hash": pa.array([hash_of(row[:2], 1) for row in rows], pa.int64()),
            "is_deleted": pa.array([row[1] is None for row in rows], pa.bool_()),
            "o0": pa.array([version for version, _ in changes], pa.int64()),
            **columns_of(rows, "c", [each.type for each in WIDE]),
            "v2": pa.array(
                [
                    None if body == SAME else UNKNOWN_VALUE if body is None else hash_of((body,), 1)
                    for _, (_, _, body) in changes
                ],
                pa.int64(),
            ),
        }
    )


def wide_rows_now(changes: Sequence[tuple[int, WideChange]]) -> Counter[tuple[Any, ...]]:
    now: dict[str, tuple[str, str | None, str | None]] = {}
    for _, (key, name, body) in changes:
        before = now.pop(key, (key, None, None))[2]
        if name is not None:
            now[key] = (key, name, before if body == SAME else body)
    return Counter(now.values())


@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.none() | st.sampled_from("xy"),
            st.none() | st.sampled_from([SAME, "t", "u"]),
        ),
        max_size=25,
    ),
    st.data(),
)
def test_value_that_a_change_lacks_is_the_one_before_in_whatever_batches(
    changes: list[WideChange], data: st.DataObject
) -> None:
    step = LatestStep(columns=WIDE, key=["id"], order=ORDER, keeps_deleted=False, unchanged=[2])
    bucket = Bucket(step, LatestLift(step))
    arriving = list(enumerate(changes))
    done: list[tuple[int, WideChange]] = []
    while arriving:
        size = data.draw(st.integers(1, len(arriving)))
        batch, arriving = arriving[:size], arriving[size:]
        done += batch
        bucket.work(wide_table_of(batch))
        assert bucket.view == wide_rows_now(done)
        if data.draw(st.booleans()):
            bucket.restart()
