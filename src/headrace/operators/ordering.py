"""The order of values of any type, as Spark defines it: null first, NaN last, both zeros equal.

Structs are compared field by field and arrays element by element; a shorter array is first. Arrow sorts neither, so
nested values are replaced by their ranks. Maps have no order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.state.ids import Ints, Mask, is_first

_RANK = np.dtype(">u8")
"""Ranks as bytes sort like the ranks."""


def is_ordered(kind: pa.DataType) -> bool:
    """Whether the values of this type have an order: not if a map is inside."""
    if pa.types.is_struct(kind):
        return all(is_ordered(each.type) for each in kind)
    if pa.types.is_list(kind):
        return is_ordered(kind.value_type)
    return not pa.types.is_map(kind)


def sort_key(values: pa.Array) -> pa.Array:
    """A column that Arrow can sort, in the order of the values."""
    return pa.array(ranks_of(values)) if pa.types.is_nested(values.type) else values


def ranks_of(values: pa.Array) -> Ints:
    """Integers in the order of the values, equal for equal values; 0 for null."""
    if pa.types.is_struct(values.type):
        ranks = _ranks_of_structs(values)
    elif pa.types.is_list(values.type):
        ranks = _ranks_of_lists(values)
    elif pa.types.is_floating(values.type):
        # Adding 0.0 makes both zeros equal.
        _, places = np.unique(np.asarray(values.fill_null(0)) + 0.0, return_inverse=True)
        ranks = places + 1
    else:
        ranks = _ranks_of_plain(values)
    return np.where(np.asarray(values.is_valid()), ranks, 0)


def differ(one: pa.Array, other: pa.Array) -> Mask:
    """A mask of the values that differ. Null equals null, and NaN equals NaN."""
    if pa.types.is_nested(one.type):
        ranks = ranks_of(pa.concat_arrays([one, other]))
        is_other: Mask = ranks[: len(one)] != ranks[len(one) :]
        return is_other
    is_same = pc.fill_null(pc.equal(one, other), False)
    is_same = pc.or_(is_same, pc.and_(one.is_null(), other.is_null()))
    if pa.types.is_floating(one.type):
        both = pc.and_(pc.is_nan(one), pc.is_nan(other))
        is_same = pc.or_(is_same, pc.fill_null(both, False))
    return ~np.asarray(is_same)


def _ranks_of_plain(values: pa.Array) -> Ints:
    if pa.types.is_null(values.type):
        return np.zeros(len(values), np.int64)
    encoded = values.dictionary_encode()
    order = np.asarray(pc.sort_indices(encoded.dictionary))
    by_code = np.empty(len(order) + 1, dtype=np.int64)
    by_code[order] = np.arange(1, len(order) + 1)
    ranks: Ints = by_code[np.asarray(encoded.indices.fill_null(len(order)))]
    return ranks


def _ranks_of_structs(values: pa.Array) -> Ints:
    # flatten() gives null for the fields of a null struct.
    fields = [ranks_of(each) for each in values.flatten()]
    if not fields or len(values) == 0:
        return np.ones(len(values), np.int64)
    order = np.lexsort(fields[::-1])
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = np.cumsum(is_first(*(each[order] for each in fields)))
    return ranks


def _ranks_of_lists(values: pa.Array) -> Ints:
    """The ranks of the elements of a list, as the bytes of one binary value, have the order of the list."""
    content = ranks_of(values.flatten()).astype(_RANK).tobytes()
    lengths = np.asarray(values.value_lengths().fill_null(0)).astype(np.int64)
    ends = np.append(0, np.cumsum(lengths)) * _RANK.itemsize
    buffers = [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(content)]
    return _ranks_of_plain(pa.Array.from_buffers(pa.large_binary(), len(values), buffers))
