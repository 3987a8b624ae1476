"""Sketches: distinct counts, percentiles and the most frequent values, in a bounded number of bytes per window.

All three are exact while a window has few values, and have a known error beyond that. They are columns of lists, so
that the sketches of all windows of a batch are merged together: elements are flattened, sorted by group, and truncated
to the bound. The first two depend only on the set of values, not on the order of merging; so a stream gives exactly the
results of bounded rows.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import Columns, Floats, Fold, groups_of, lists, offsets, ranks
from headrace.operators.state.ids import Ints, distinct, is_first, segment_starts

DISTINCT_HASHES_MAX = 2_048
"""The number of hashes of a distinct count, 16 KiB: smaller counts are exact, larger ones have a standard error of
2.2 %."""

PERCENTILE_BUCKETS_MAX = 1_024
"""The number of buckets of a percentile, 16 KiB: up to this number of distinct values it is exact. More values, over 16
powers of two (1 ms to 65 s), are in buckets with an error of less than 0.8 %."""

TOP_VALUES_MIN = 1_000
"""The minimum number of values that `top(x, n)` counts: with fewer distinct values in a window it is exact."""

TOP_VALUES_PER_RESULT = 10
"""The number of counted values per result: a long list needs more counters to find its last values."""

SAMPLED_PER_HASH = 4
"""How many hashes are examined first for each that is kept."""

TOP_RESULTS_MAX = 1_000
"""The most results of `top`."""


class DistinctFold(Fold):
    """The number of distinct values, estimated from the smallest `hashes_max` hashes of values.

    If the 2,048th smallest of hashes between 0 and 1 is 0.1, there are about 20,480 values (Bar-Yossef et al., 2002).
    """

    state = (pa.list_(pa.int64()),)
    result_type = pa.int64()

    def __init__(self, hashes_max: int = DISTINCT_HASHES_MAX) -> None:
        self._hashes_max = hashes_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        """`values` are 64-bit hashes."""
        assert values is not None
        bounds = offsets(values.is_valid())
        return [pa.ListArray.from_arrays(bounds, values.drop_null())]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        groups, _ = groups_of(columns[0], starts)
        hashes = np.asarray(columns[0].flatten())
        if len(starts) == 1:
            hashes = self._smallest(hashes)
            groups = groups[: len(hashes)]
        order = np.lexsort((hashes, groups))
        groups, hashes = groups[order], hashes[order]
        first = is_first(groups, hashes)
        groups, hashes = groups[first], hashes[first]
        kept = ranks(groups, len(starts)) < self._hashes_max
        return [lists(groups[kept], pa.array(hashes[kept]), len(starts))]

    def _smallest(self, hashes: Ints) -> Ints:
        """Of many hashes, some that include the smallest `hashes_max` distinct ones: to sort them all takes longer."""
        count = SAMPLED_PER_HASH * self._hashes_max
        while count < len(hashes):
            smallest = np.partition(hashes, count)[:count]
            if len(distinct(smallest)) >= self._hashes_max:
                return smallest
            count *= SAMPLED_PER_HASH
        return hashes

    def result(self, columns: Columns) -> pa.Array:
        counts = np.asarray(columns[0].value_lengths()).astype(np.int64)
        hashes = np.asarray(columns[0].flatten())
        full = counts >= self._hashes_max
        greatest = hashes[np.cumsum(counts)[full] - 1]
        share = (greatest.astype(np.float64) + 2.0**63) / 2.0**64
        counts[full] = np.rint((self._hashes_max - 1) / share).astype(np.int64)
        return pa.array(counts)


class PercentileFold(Fold):
    """A percentile of numbers, from counts in buckets that are as narrow as the limit on their number allows.

    The bits of a float, read as an integer, have the order of the float. Dropping the last bits makes buckets of
    relative width: without the last 46 bits, there are 64 buckets between a number and its double. A state drops as few
    bits as bring it below the limit, and none for few distinct values.
    """

    state = (pa.int8(), pa.list_(pa.int64()), pa.list_(pa.int64()))
    """The number of dropped bits; the buckets in order; their counts."""
    result_type = pa.float64()

    def __init__(self, share: float, buckets_max: int = PERCENTILE_BUCKETS_MAX) -> None:
        self._share = share
        self._buckets_max = buckets_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        bounds = offsets(values.is_valid())
        places = _ordered(np.asarray(values.drop_null().cast(pa.float64())))
        return [
            pa.array(np.zeros(len(values), dtype=np.int8)),
            pa.ListArray.from_arrays(bounds, pa.array(places)),
            pa.ListArray.from_arrays(bounds, pa.array(np.ones(len(places), dtype=np.int64))),
        ]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        groups, states = groups_of(columns[1], starts)
        bits = np.asarray(columns[0]).astype(np.int64)
        coarsest = np.maximum.reduceat(bits, starts)
        places = np.asarray(columns[1].flatten()) >> (coarsest[groups] - bits[states])
        order = np.lexsort((places, groups))
        groups, places, counts = summed(groups[order], places[order], np.asarray(columns[2].flatten())[order])
        extra = self._bits_too_many(groups, places, len(starts))
        if extra.any():
            groups, places, counts = summed(groups, places >> extra[groups], counts)
        return [
            pa.array((coarsest + extra).astype(np.int8)),
            lists(groups, pa.array(places), len(starts)),
            lists(groups, pa.array(counts), len(starts)),
        ]

    def _bits_too_many(self, groups: Ints, places: Ints, count: int) -> Ints:
        """The number of bits that each group must also drop to reach the limit of buckets."""
        extra = np.zeros(count, dtype=np.int64)
        is_big = np.bincount(groups, minlength=count) > self._buckets_max
        if not is_big.any():
            return extra
        inside = is_big[groups]
        groups, places = groups[inside], places[inside]
        # Two neighbours stay distinct while the highest bit in which they differ is not dropped.
        pairs = groups[1:] == groups[:-1]
        lengths = bit_lengths((places[1:] ^ places[:-1])[pairs].view(np.uint64))
        groups = groups[1:][pairs]
        lengths = lengths[np.lexsort((-lengths, groups))]
        firsts = segment_starts(groups)
        extra[is_big] = lengths[firsts + self._buckets_max - 1]
        return extra

    def result(self, columns: Columns) -> pa.Array:
        bits = np.asarray(columns[0]).astype(np.int64)
        lengths = np.asarray(columns[1].value_lengths()).astype(np.int64)
        numbers = numbers_of_buckets(np.asarray(columns[1].flatten()), np.repeat(bits, lengths))
        ends = np.append(0, np.cumsum(np.asarray(columns[2].flatten())))
        edges = np.append(0, np.cumsum(lengths))
        before, counts = ends[edges[:-1]], np.diff(ends[edges])
        there = counts > 0
        # Interpolated between two values, as Spark's `percentile` does.
        position = self._share * (counts[there] - 1)
        below, above = np.floor(position), np.ceil(position)
        low, high = (
            numbers[np.searchsorted(ends, before[there] + rank.astype(np.int64), side="right") - 1]
            for rank in (below, above)
        )
        results = np.zeros(len(counts))
        with np.errstate(invalid="ignore"):
            between = (above - position) * low + (position - below) * high
        results[there] = np.where((low == high) | (below == above), low, between)
        return pa.array(results, mask=~there)


class TopFold(Fold):
    """The most frequent values with their counts; among equally frequent values, the smallest first.

    If there are more than `values_max` values, all counts are reduced by the count of the first value beyond the limit,
    and values without a count are dropped (Misra and Gries, 1982). So a count is never too high, and too low by at most
    the number of rows divided by `values_max`.
    """

    def __init__(self, values: pa.DataType, *, results: int, values_max: int | None = None) -> None:
        self._results = results
        self._values_max = values_max or max(TOP_VALUES_MIN, results * TOP_VALUES_PER_RESULT)
        self.state = (pa.list_(values), pa.list_(pa.int64()))
        self.result_type = pa.list_(pa.struct([pa.field("value", values), pa.field("count", pa.int64())]))

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        bounds = offsets(values.is_valid())
        present = values.drop_null()
        if pa.types.is_floating(present.type):
            present = pc.add(present, pa.scalar(0.0, present.type))  # -0.0 and 0.0 are one value
        ones = pa.array(np.ones(len(present), dtype=np.int64))
        return [pa.ListArray.from_arrays(bounds, each) for each in (present, ones)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        values, counts, _ = self.lowered(columns, starts)
        return [values, counts]

    def lowered(self, columns: Columns, starts: Ints) -> tuple[pa.Array, pa.Array, Ints]:
        """The merged values and counts, and by how much the counts of each group were reduced."""
        groups, _ = groups_of(columns[0], starts)
        codes, words = _coded(columns[0].flatten())
        order = np.lexsort((codes, groups))
        groups, codes, counts = summed(groups[order], codes[order], np.asarray(columns[1].flatten())[order])
        order = np.lexsort((codes, -counts, groups))
        groups, codes, counts = groups[order], codes[order], counts[order]
        reduced = self._first_too_many(groups, counts, len(starts))
        counts = counts - reduced[groups]
        kept = counts > 0
        groups, codes, counts = groups[kept], codes[kept], counts[kept]
        taken = words.take(pa.array(codes))
        return (*(lists(groups, each, len(starts)) for each in (taken, pa.array(counts))), reduced)

    def _first_too_many(self, groups: Ints, counts: Ints, count: int) -> Ints:
        """The count of the first value beyond the limit in each group, or 0. Groups are ordered by count."""
        lowered = np.zeros(count, dtype=np.int64)
        first = np.flatnonzero(ranks(groups, count) == self._values_max)
        lowered[groups[first]] = counts[first]
        return lowered

    def result(self, columns: Columns) -> pa.Array:
        count = len(columns[0])
        groups = np.repeat(np.arange(count), np.asarray(columns[0].value_lengths()).astype(np.int64))
        shown = ranks(groups, count) < self._results
        inside = [each.flatten().filter(pa.array(shown)) for each in columns]
        fields = list(self.result_type.value_type)
        return lists(groups[shown], pa.StructArray.from_arrays(inside, fields=fields), count)


def summed(groups: Ints, keys: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """Sorted elements, with those of the same group and key merged."""
    firsts = segment_starts(groups, keys)
    if len(firsts) == len(groups):
        return groups, keys, counts
    return groups[firsts], keys[firsts], np.add.reduceat(counts, firsts)


def _coded(values: pa.Array) -> tuple[Ints, pa.Array]:
    """Each value as a number in the order of values, and the values by number."""
    encoded = values.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[np.asarray(order)] = np.arange(len(order))
    return ranks[np.asarray(encoded.indices)], encoded.dictionary.take(order)


_ALL_BUT_SIGN = np.int64(2**63 - 1)


def _ordered(numbers: Floats) -> Ints:
    """Integers in the order of the numbers. Both zeros are equal, and NaN is last."""
    clean = np.where(np.isnan(numbers), np.nan, numbers + 0.0)
    bits = clean.view(np.int64)
    return np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)


def _numbers(places: Ints) -> Floats:
    return np.where(places < 0, places ^ _ALL_BUT_SIGN, places).view(np.float64)


_INFINITY = int(_ordered(np.array([np.inf]))[0])
_MINUS_INFINITY = int(_ordered(np.array([-np.inf]))[0])


def numbers_of_buckets(places: Ints, bits: Ints) -> Floats:
    """The middle of each bucket; 0 for the bucket that starts at zero."""
    first = places << bits
    middle = first + np.where(bits > 0, np.left_shift(1, np.maximum(bits - 1, 0)), 0)
    middle = np.where((places == 0) | (first >= _INFINITY), first, np.maximum(middle, _MINUS_INFINITY))
    return _numbers(middle)


def bit_lengths(bits: npt.NDArray[np.uint64]) -> Ints:
    """The bit length of each number, from the exponents of its 32-bit halves, which are exact as floats."""
    high, low = (bits >> np.uint64(32)).astype(np.float64), (bits & np.uint64(2**32 - 1)).astype(np.float64)
    return np.where(high > 0, np.frexp(high)[1] + 32, np.frexp(low)[1]).astype(np.int64)
