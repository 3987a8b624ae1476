"""MurmurHash3 of columns: the hashes that DataSketches computes of each value."""

from __future__ import annotations

import datasketches
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.murmur import hashes_of_numbers, hashes_of_texts
from headrace.operators.portable_sketches import COUNT_MIN_DEPTH, COUNT_MIN_SEEDS

WIDTH = 1_009
TEXTS = st.text(st.sampled_from("aé漢🙂\0"), min_size=1, max_size=40)


def buckets_of(value: int | str) -> list[int]:
    """The bucket of a value in each row of a count-min sketch."""
    sketch = datasketches.count_min_sketch(COUNT_MIN_DEPTH, WIDTH)
    sketch.update(value)
    cells = np.frombuffer(sketch.serialize()[24:], dtype="<f8").reshape(COUNT_MIN_DEPTH, WIDTH)
    return [int(each) for each in cells.nonzero()[1]]


@given(st.integers(-(2**63), 2**63 - 1))
def test_hash_of_a_number_is_that_of_datasketches(number: int) -> None:
    numbers = np.array([number, number]).view(np.uint64)
    found = [hashes_of_numbers(numbers, seed)[0] % np.uint64(WIDTH) for seed in COUNT_MIN_SEEDS]
    assert [each.tolist() for each in found] == [[bucket] * 2 for bucket in buckets_of(number)]


@given(st.lists(TEXTS, min_size=1, max_size=5), st.integers(0, 5))
def test_hash_of_a_text_is_that_of_datasketches_whatever_the_texts_beside_it(
    texts: list[str], start: int
) -> None:
    texts = texts[start:] or texts
    column = pa.array(["before", *texts, "behind"]).slice(1, len(texts))
    found = hashes_of_texts(column, COUNT_MIN_SEEDS)[0] % np.uint64(WIDTH)
    assert found.T.tolist() == [buckets_of(each) for each in texts]


def test_both_halves_of_a_hash_are_those_of_hyperloglog() -> None:
    sketch = datasketches.hll_sketch(12, datasketches.HLL_8)
    sketch.update(15)
    address, value = hashes_of_numbers(np.array([15], np.uint64), np.uint64(9001))
    coupon = int.from_bytes(sketch.serialize_compact()[8:12], "little")
    assert coupon & (2**26 - 1) == int(address[0]) & (2**26 - 1)
    assert coupon >> 26 == 65 - int(value[0]).bit_length()


def test_no_texts_have_no_hashes() -> None:
    assert hashes_of_texts(pa.array([], pa.string()), COUNT_MIN_SEEDS)[0].shape == (COUNT_MIN_DEPTH, 0)
