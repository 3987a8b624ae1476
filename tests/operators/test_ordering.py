"""The order of values beside Python's, with nulls first and NaN last."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.ordering import differ, is_ordered, ranks_of, sort_key

INTEGERS = st.none() | st.integers(-2, 2)
NUMBERS = st.none() | st.sampled_from([-1.5, -0.0, 0.0, 3.0, math.inf, -math.inf, math.nan])
PAIR = pa.struct([("x", pa.int64()), ("y", pa.float64())])
PAIRS = st.none() | st.fixed_dictionaries({"x": INTEGERS, "y": NUMBERS})
KINDS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), INTEGERS),
    (pa.float64(), NUMBERS),
    (pa.bool_(), st.none() | st.booleans()),
    (pa.string(), st.none() | st.sampled_from(["", "a", "ab", "b"])),
    (PAIR, PAIRS),
    (pa.list_(pa.int64()), st.none() | st.lists(INTEGERS, max_size=3)),
    (pa.list_(PAIR), st.none() | st.lists(PAIRS, max_size=3)),
    (
        pa.struct([("all", pa.list_(pa.list_(pa.float64())))]),
        st.none()
        | st.fixed_dictionaries(
            {"all": st.none() | st.lists(st.none() | st.lists(NUMBERS, max_size=2), max_size=2)}
        ),
    ),
]


def python_key(value: Any) -> tuple[Any, ...]:
    match value:
        case None:
            return (0,)
        case float():
            return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
        case dict():
            return (1, *(python_key(each) for _, each in sorted(value.items())))
        case list():
            return (1, *map(python_key, value))
    return (1, value)


@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
@given(data=st.data())
def test_ranks_have_the_order_of_the_values(
    kind: pa.DataType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    given = data.draw(st.lists(values, max_size=8))
    before = data.draw(st.integers(0, 2))
    # Arrays that begin inside their buffers are as good as others.
    ranks = ranks_of(pa.array([given[0]] * before + given, kind)[before:]) if given else np.array([])
    keys = [python_key(each) for each in given]
    for one, one_rank in zip(keys, ranks, strict=True):
        for other, other_rank in zip(keys, ranks, strict=True):
            assert (one < other, one == other) == (one_rank < other_rank, one_rank == other_rank)
    others = data.draw(st.permutations(given))
    expected = [python_key(one) != python_key(other) for one, other in zip(given, others, strict=True)]
    assert differ(pa.array(given, kind), pa.array(others, kind)).tolist() == expected


def test_only_nested_values_are_replaced_by_ranks() -> None:
    plain = pa.array(["b", "a"])
    assert sort_key(plain) is plain
    assert sort_key(pa.array([["b"], ["a"]])).to_pylist() == [2, 1]


def test_maps_have_no_order() -> None:
    entries = pa.map_(pa.string(), pa.int64())
    for kind in (entries, pa.list_(entries), pa.struct([("a", pa.list_(entries))])):
        assert not is_ordered(kind)
    assert all(is_ordered(kind) for kind, _ in KINDS)
