"""Rows with weights: ids by key and row, sums of changes, and what a change emits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.state.run import COLUMN, LABEL, ids_column
from headrace.operators.state.table import StateTable, column_of
from headrace.operators.tables.weighted import (
    Tally,
    WeightedLift,
    changelog_schema,
    emitted,
    numbered,
    row_ids,
    sides_of,
    take_keys,
    weighted_schema,
)

SCHEMA = weighted_schema([pa.field("c0", pa.string())])
NO_IDS = np.empty(0, dtype=np.complex128)

changes = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("xyz"), st.integers(-2, 2).filter(bool)), max_size=12
)
"""(key, row, weight)"""


def ids_of(
    keys: list[int], rows: list[int], sides: list[int] | int = 0
) -> np.ndarray[tuple[int], np.dtype[np.complex128]]:
    shifted = [np.array(each, dtype=np.uint64) << np.uint64(32) for each in (keys, rows)]
    return row_ids(
        shifted[0], shifted[1], np.array(sides, dtype=np.int64) if isinstance(sides, list) else sides
    )


def table_of(rows: list[tuple[int, str, int]], sides: list[int] | int = 0) -> pa.Table:
    keys, words, weights = [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]
    ids = ids_of(keys, [ord(word) for word in words], sides)
    columns = [pa.array(keys, pa.int64()), pa.array(list(map(ord, words)), pa.int64())]
    return pa.table(
        [ids_column(ids), *columns, pa.array(weights, pa.int64()), pa.array(words, pa.string())],
        schema=SCHEMA,
    )


def weights_in(rows: pa.Table) -> Counter[tuple[int, str]]:
    return Counter({(row["key_hash"], row["c0"]): row["weight"] for row in rows.to_pylist()})


def test_ids_sort_by_key_then_side_then_row() -> None:
    ids = ids_of([2, 1, 1, 1], [0, 9, 0, 5], [0, 0, 1, 0])
    assert np.argsort(ids).tolist() == [3, 1, 2, 0]
    assert sides_of(ids).tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize(("side", "words"), [(None, "abc"), (0, "ab"), (1, "c")])
def test_all_rows_of_a_key_are_read_of_one_side_or_of_both(side: int | None, words: str) -> None:
    rows = table_of([(1, "a", 1), (1, "b", 1), (1, "c", 1), (2, "d", 1)], [0, 0, 1, 0])
    table = StateTable(SCHEMA).with_changes(rows, NO_IDS)
    keys = np.unique(ids_of([1], [0]).real)
    assert sorted(take_keys(table, keys, side).column("c0").to_pylist()) == list(words)


@settings(max_examples=40)
@given(changes, changes)
def test_a_tally_has_every_row_once_with_its_weight_before_and_after(
    before: list[tuple[int, str, int]], new: list[tuple[int, str, int]]
) -> None:
    stored: Counter[tuple[int, str]] = Counter()
    for key, word, weight in before:
        stored[key, word] += weight
    state = table_of([(key, word, weight) for (key, word), weight in stored.items() if weight])
    tally = Tally(state, table_of(new))
    after = Counter(weights_in(state))
    for key, word, weight in new:
        after[key, word] += weight
    found = [(row["key_hash"], row["c0"]) for row in tally.rows.to_pylist()]
    assert len(found) == len(set(found))
    assert [stored[each] for each in found] == tally.weight_before.tolist()
    assert [after[each] for each in found] == tally.weight_after.tolist()
    assert tally.after.tolist() == [max(after[each], 0) for each in found]
    assert [found[start][0] for start in tally.group_starts] == sorted({key for key, _ in found})
    kept, deleted = tally.changes()
    changed = {each for each in found if stored[each] != after[each]}
    assert weights_in(kept) == Counter({each: after[each] for each in changed if after[each]})
    assert len(deleted) == sum(1 for each in changed if stored[each] and not after[each])


def test_rows_whose_ids_collide_are_distinguished_by_their_hashes() -> None:
    columns = [pa.array([1, 2], pa.int64()), pa.array([7, 7], pa.int64()), pa.array([1, 1], pa.int64())]
    rows = pa.table([ids_column(np.zeros(2, np.complex128)), *columns, pa.array(["a", "b"])], schema=SCHEMA)
    tally = Tally(SCHEMA.empty_table(), rows)
    assert tally.weight_after.tolist() == [1, 1]
    assert tally.group.tolist() == [0, 1]


@settings(max_examples=40)
@given(st.lists(st.integers(-3, 3), max_size=8))
def test_rows_are_emitted_as_often_as_their_weight_retractions_first(weights: list[int]) -> None:
    schema = changelog_schema([pa.field("word", pa.string())])
    words = [f"word {number}" for number in range(len(weights))]
    rows = emitted(schema, [pa.array(words, pa.string())], np.array(weights, dtype=np.int64)).to_pylist()
    found = Counter((row["word"], row["op"]) for row in rows)
    assert found == Counter(
        {
            (word, "+" if weight > 0 else "-"): abs(weight)
            for word, weight in zip(words, weights, strict=True)
            if weight
        }
    )
    assert sorted((row["op"] for row in rows), reverse=True) == [row["op"] for row in rows]


def test_numbered_columns_have_the_names_of_the_user_in_their_metadata() -> None:
    fields = [pa.field("user", pa.string()), pa.field("city", pa.int64())]
    numbers = numbered("c", fields, key=["user"], owner="other.")
    assert [(each.name, each.type) for each in numbers] == [("c0", pa.string()), ("c1", pa.int64())]
    assert [each.metadata for each in numbers] == [{COLUMN: b"other.user"}, {LABEL: b"other.city"}]


@pytest.mark.parametrize("sides", [None, [0, 1]])
def test_the_lift_makes_ids_of_the_first_hashes_and_keeps_the_second(sides: list[int] | None) -> None:
    columns = {
        "h1": pa.array([1 << 40, -1], pa.int64()),
        "h2": pa.array([10, 11], pa.int64()),
        "r1": pa.array([1 << 50, 1 << 51], pa.int64()),
        "r2": pa.array([20, 21], pa.int64()),
        "weight": pa.array([1, -1], pa.int64()),
        "c0": pa.array(["x", None], pa.string()),
    }
    if sides:
        columns["side"] = pa.array(sides, pa.int32())
    lifted, hashes = WeightedLift(SCHEMA)(pa.table(columns))
    assert hashes.tolist() == [1 << 40, 2**64 - 1]
    assert lifted.drop_columns(["id"]).to_pylist() == [
        {"key_hash": 10, "row_hash": 20, "weight": 1, "c0": "x"},
        {"key_hash": 11, "row_hash": 21, "weight": -1, "c0": None},
    ]
    ids = row_ids(hashes, np.array([1 << 50, 1 << 51], np.uint64), np.array(sides or [0, 0]))
    assert column_of(lifted, "id").equals(ids_column(ids))
