"""The distinct keys of rows, by their hashes."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.approximation.rows_with_keys import key_hashes, lift_first_rows
from tests.operators.tables.changelogs import hash_columns


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.sampled_from([0, 1, 64]))
def test_keys_of_rows_are_counted_and_numbered(keys: list[int], bits: int) -> None:
    found = key_hashes(pa.table(hash_columns("h", keys, first_bits=bits)))
    numbers = found.numbers.tolist()
    assert len({*zip(keys, numbers, strict=True)}) == len(set(keys)) == len(found.first)
    assert Counter(numbers) == dict(enumerate(found.counts.tolist()))
    assert [keys.index(keys[head]) for head in found.heads] == found.heads.tolist()
    assert [numbers[head] for head in found.heads] == list(range(len(found.heads)))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.sampled_from([0, 1, 64]))
def test_first_row_of_each_key_is_kept(keys: list[int], bits: int) -> None:
    columns = hash_columns("h", keys, first_bits=bits)
    first, hashes = lift_first_rows(pa.table({**columns, "c0": keys}))
    assert first.column("c0").to_pylist() == list(dict.fromkeys(keys))
    assert hashes.view("int64").tolist() == first.column("h1").to_pylist()
