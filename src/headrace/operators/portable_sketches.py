"""Sketches as bytes that Apache DataSketches reads and merges, in Python, Java or C++.

    theta_sketch(x)      distinct values    datasketches.compact_theta_sketch
    tdigest_sketch(x)    percentiles        datasketches.tdigest_double
    frequent_sketch(x)   frequent values    datasketches.frequent_strings_sketch
    hll_sketch(x)        distinct values    datasketches.hll_sketch
    count_min_sketch(x)  frequencies        datasketches.count_min_sketch

The states of the first three are those of `distinct`, `percentile` and `top`; only the results differ. All depend only
on the values, or have an error that is part of the sketch, so that a stream gives the sketches of bounded rows. A KLL
sketch chooses at random which values it keeps, so there is none.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import Columns, Fold, groups_of, lists, offsets
from headrace.operators.murmur import hashes_of_numbers, hashes_of_texts
from headrace.operators.sketches import (
    DistinctFold,
    PercentileFold,
    TopFold,
    bit_lengths,
    numbers_of_buckets,
    summed,
)
from headrace.operators.state.ids import Hashes, Ints, distinct, is_first

THETA_ENTRIES_MAX = 4_096
"""The number of hashes of a theta sketch, 32 KiB: smaller counts are exact, larger ones have a standard error of
1.6 %. It is the default of Spark's `theta_sketch_agg`."""

FREQUENT_LG_MAX = 11
FREQUENT_VALUES_MAX = 3 * 2**FREQUENT_LG_MAX // 4
"""The number of counted values. A map of DataSketches is at most three quarters full."""

DIGEST_K = 500
"""The compression that DataSketches applies when it merges the t-digest with others."""

HLL_LG_REGISTERS = 12
"""2^12 registers of a byte each: a standard error of 1.6 %. It is the default of Spark's `hll_sketch_agg`."""

COUNT_MIN_WIDTH = 2_719
COUNT_MIN_DEPTH = 5
"""The numbers that DataSketches suggests for an error of 0.1 % of all rows with a probability of 99 %; 106 KiB."""

COUNT_MIN_SEEDS = np.array(
    [0x3E2F341AA14FC70C, 0x5C069E43FCE813CE, 0x9D8635C136501EB7, 0x39BDA2E83B2EF264, 0x8BBF8F2FEBA771EC],
    dtype=np.uint64,
)
"""What DataSketches draws for its five hash functions with the random numbers of GNU's C++ library, as on Linux."""

_SEED = np.uint64(9001)
_SEED_HASH = 0x93CC
"""The default seed of DataSketches, and the hash of it in every sketch."""

_HLL_ADDRESS_BITS = 26
_HLL_VALUE_MAX = 63
_HLL_COMPACT, _HLL_EMPTY, _HLL_OUT_OF_ORDER = 8, 4, 16
_HLL_SET, _HLL_REGISTERS = 0b1001, 0b1010
"""The forms of a sketch with a byte per register: a set of coupons, and the registers."""

_THETA_MAX = 2**63 - 1
_THETA_FLAGS = 0b11010
"""Read-only, compact and ordered."""


class ThetaFold(DistinctFold):
    """The theta sketch of 64-bit hashes, hashed as DataSketches hashes integers.

    So it is the sketch of `theta_sketch_agg(xxhash64(x))` of Spark. The state has one more hash than the sketch: theta,
    the smallest hash that the sketch does not have.
    """

    result_type = pa.binary()

    def __init__(self, entries_max: int = THETA_ENTRIES_MAX) -> None:
        super().__init__(hashes_max=entries_max + 1)
        self._entries_max = entries_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        hashes = theta_hashes(np.asarray(values.fill_null(0)).view(np.uint64))
        return super().lift(pa.array(hashes.view(np.int64), mask=np.asarray(values.is_null())), times_us)

    def result(self, columns: Columns) -> pa.Array:
        return pa.array([self._encoded(each) for each in _elements(columns[0])], pa.binary())

    def _encoded(self, hashes: Ints) -> bytes:
        head = (3, 3, 0, 0)
        if len(hashes) == 0:
            return struct.pack("<8B", 1, *head, _THETA_FLAGS | 0b100, *_SEED_HASH.to_bytes(2, "little"))
        is_exact = len(hashes) <= self._entries_max
        kept = hashes[: self._entries_max]
        start = struct.pack("<6BHII", 2 if is_exact else 3, *head, _THETA_FLAGS, _SEED_HASH, len(kept), 0)
        theta = b"" if is_exact else struct.pack("<q", hashes[self._entries_max])
        return start + theta + kept.astype("<i8").tobytes()


def theta_hashes(numbers: Hashes) -> Hashes:
    """The hashes of 64-bit integers in a theta sketch: 63 bits."""
    return hashes_of_numbers(numbers, _SEED)[0] >> np.uint64(1)


class DigestFold(PercentileFold):
    """The buckets of a percentile as the centroids of a t-digest. NaN and infinite values are not counted."""

    result_type = pa.binary()

    def __init__(self) -> None:
        super().__init__(share=0.5)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        numbers = np.asarray(values.cast(pa.float64()).fill_null(np.nan))
        return super().lift(pa.array(numbers, mask=~np.isfinite(numbers)), times_us)

    def result(self, columns: Columns) -> pa.Array:
        bits = np.asarray(columns[0]).astype(np.int64)
        parts = zip(bits, _elements(columns[1]), _elements(columns[2]), strict=True)
        return pa.array([_digest(*each) for each in parts], pa.binary())


def _digest(bits: int, places: Ints, counts: Ints) -> bytes:
    head = (1, 20, DIGEST_K)
    if len(places) == 0:
        return struct.pack("<3BHBH", 1, *head, 1, 0)
    numbers = numbers_of_buckets(places, np.full(len(places), bits))
    if counts.sum() == 1:
        return struct.pack("<3BHBHd", 1, *head, 2, 0, numbers[0])
    start = struct.pack("<3BHBHIIdd", 2, *head, 0, 0, len(places), 0, numbers[0], numbers[-1])
    centroids = np.empty(len(places), dtype=[("mean", "<f8"), ("weight", "<i8")])
    centroids["mean"], centroids["weight"] = numbers, counts
    return start + centroids.tobytes()


class FrequentFold(TopFold):
    """The most frequent texts, with the number of rows and the greatest error of a count."""

    def __init__(self, lg_max: int = FREQUENT_LG_MAX) -> None:
        super().__init__(pa.string(), results=1, values_max=3 * 2**lg_max // 4)
        self.state = (*self.state, pa.int64(), pa.int64())
        self.result_type = pa.binary()
        self._lg_max = lg_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        valid = values.is_valid().cast(pa.int64())
        return [*super().lift(values, times_us), valid, pa.array(np.zeros(len(values), np.int64))]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        values, counts, lowered = self.lowered(columns, starts)
        rows, errors = (np.add.reduceat(np.asarray(each), starts) for each in columns[2:])
        return [values, counts, pa.array(rows), pa.array(errors + lowered)]

    def result(self, columns: Columns) -> pa.Array:
        texts = columns[0].flatten()
        ends = np.append(0, np.cumsum(np.asarray(columns[0].value_lengths())))
        counts = _elements(columns[1])
        totals = zip(np.asarray(columns[2]), np.asarray(columns[3]), strict=True)
        return pa.array(
            [
                self._encoded(texts[ends[number] : ends[number + 1]].to_pylist(), counts[number], *each)
                for number, each in enumerate(totals)
            ],
            pa.binary(),
        )

    def _encoded(self, texts: list[str], counts: Ints, rows: int, error: int) -> bytes:
        if not texts:
            return struct.pack("<6BH", 1, 1, 10, self._lg_max, self._lg_max, 5, 0)
        start = struct.pack(
            "<6BHIIQQ", 4, 1, 10, self._lg_max, self._lg_max, 0, 0, len(texts), 0, rows, error
        )
        encoded = [each.encode() for each in texts]
        items = b"".join(struct.pack("<I", len(each)) + each for each in encoded)
        return start + counts.astype("<i8").tobytes() + items


class HllFold(Fold):
    """The HyperLogLog sketch of 64-bit hashes, hashed as DataSketches hashes integers.

    A value sets a register, chosen by one half of its hash, to the number of leading zeros of the other half, if that
    is greater. This pair is called a coupon. Few coupons are stored themselves, with more bits, so that small counts
    are nearly exact. So the sketch is that of `hll_sketch_agg(xxhash64(x))` of Spark.
    """

    state = (pa.bool_(), pa.list_(pa.int32()))
    """Whether there are registers instead of coupons; the coupons, or the registers that are set as coupons."""
    result_type = pa.binary()

    def __init__(self, lg_registers: int = HLL_LG_REGISTERS) -> None:
        self._lg_registers = lg_registers
        self._coupons_max = 3 * 2 ** (lg_registers - 3) // 4
        """DataSketches changes to registers beyond this number."""

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        hashes = np.asarray(values.drop_null()).view(np.uint64)
        address, other = hashes_of_numbers(hashes, _SEED)
        value = np.minimum(65 - bit_lengths(other), _HLL_VALUE_MAX)
        coupons = _coupons(value, (address & np.uint64(2**_HLL_ADDRESS_BITS - 1)).astype(np.int64))
        has_registers = pa.array(np.zeros(len(values), dtype=np.bool_))
        return [has_registers, pa.ListArray.from_arrays(offsets(values.is_valid()), coupons)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        groups, _ = groups_of(columns[1], starts)
        coupons = np.asarray(columns[1].flatten()).view(np.uint32).astype(np.int64)
        groups, coupons = np.divmod(distinct(groups << 32 | coupons), 2**32)
        counts = np.bincount(groups, minlength=len(starts))
        is_full = np.logical_or.reduceat(np.asarray(columns[0]), starts) | (counts > self._coupons_max)
        values, addresses = coupons >> _HLL_ADDRESS_BITS, coupons & (2**_HLL_ADDRESS_BITS - 1)
        # Of a register, only the greatest value matters. A coupon without registers stays as it is.
        slots = np.where(is_full[groups], addresses & (2**self._lg_registers - 1), coupons)
        order = np.lexsort((-values, slots, groups))
        kept = order[is_first(groups[order], slots[order])]
        addresses = np.where(is_full[groups], slots, addresses)
        return [pa.array(is_full), lists(groups[kept], _coupons(values[kept], addresses[kept]), len(starts))]

    def result(self, columns: Columns) -> pa.Array:
        parts = zip(np.asarray(columns[0]), _elements(columns[1]), strict=True)
        return pa.array([self._encoded(*each) for each in parts], pa.binary())

    def _encoded(self, has_registers: bool, coupons: npt.NDArray[Any]) -> bytes:
        head = (1, 7, self._lg_registers)
        if len(coupons) == 0:
            return struct.pack("<8B", 2, *head, 3, _HLL_COMPACT | _HLL_EMPTY, 0, _HLL_SET & ~1)
        if not has_registers:
            # The smallest hash table that is at most three quarters full. A larger one would never become registers.
            lg_size = max(5, ((4 * len(coupons) - 1) // 3).bit_length())
            start = struct.pack("<8BI", 3, *head, lg_size, _HLL_COMPACT, 0, _HLL_SET, len(coupons))
            return start + coupons.astype("<i4").tobytes()
        bits = coupons.view(np.uint32)
        registers = np.zeros(2**self._lg_registers, dtype=np.uint8)
        registers[bits & np.uint32(2**_HLL_ADDRESS_BITS - 1)] = bits >> np.uint32(_HLL_ADDRESS_BITS)
        powers = np.ldexp(1.0, -registers.astype(np.int32))
        # Without the order of updates, readers estimate from the sums of the powers: of small and of great registers.
        sums = (powers[registers < 32].sum(), powers[registers >= 32].sum())
        flags = _HLL_COMPACT | _HLL_OUT_OF_ORDER
        zeros = int((registers == 0).sum())
        start = struct.pack("<8B3dII", 10, *head, 0, flags, 0, _HLL_REGISTERS, 0.0, *sums, zeros, 0)
        return start + registers.tobytes()


def _coupons(values: Ints, addresses: Ints) -> pa.Array:
    return pa.array((values << _HLL_ADDRESS_BITS | addresses).astype(np.uint32).view(np.int32))


class CountMinFold(Fold):
    """A count-min sketch of integers or texts (Cormode and Muthukrishnan, 2005). Empty texts are not counted, because
    DataSketches ignores them."""

    state = (pa.list_(pa.int32()), pa.list_(pa.int64()))
    """The cells with a count, in order; their counts."""
    result_type = pa.binary()

    def __init__(self, width: int = COUNT_MIN_WIDTH) -> None:
        self._width = width

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        if pa.types.is_integer(values.type):
            values = values.cast(pa.int64())
        else:
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
        encoded = values.drop_null().dictionary_encode()
        cells = self._cells(encoded.dictionary)[np.asarray(encoded.indices)].ravel()
        counted = np.append(0, np.cumsum(np.asarray(values.is_valid())))
        edges = pa.array((COUNT_MIN_DEPTH * counted).astype(np.int32))
        ones = np.ones(len(cells), dtype=np.int64)
        return [pa.ListArray.from_arrays(edges, pa.array(each)) for each in (cells, ones)]

    def _cells(self, values: pa.Array) -> npt.NDArray[np.int32]:
        """The cells by value and row of the sketch."""
        if pa.types.is_integer(values.type):
            numbers = np.asarray(values).view(np.uint64)
            hashes = np.array([hashes_of_numbers(numbers, seed)[0] for seed in COUNT_MIN_SEEDS])
        else:
            hashes = hashes_of_texts(values, COUNT_MIN_SEEDS)[0]
        rows = self._width * np.arange(COUNT_MIN_DEPTH)[:, None]
        return (rows + (hashes % np.uint64(self._width)).astype(np.int64)).astype(np.int32).T

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        groups, _ = groups_of(columns[0], starts)
        cells, counts = (np.asarray(each.flatten()) for each in columns)
        order = np.argsort(groups * (self._width * COUNT_MIN_DEPTH) + cells, kind="stable")
        groups, cells, counts = summed(groups[order], cells[order], counts[order])
        return [lists(groups, pa.array(each), len(starts)) for each in (cells, counts)]

    def result(self, columns: Columns) -> pa.Array:
        parts = zip(_elements(columns[0]), _elements(columns[1]), strict=True)
        return pa.array([self._encoded(*each) for each in parts], pa.binary())

    def _encoded(self, cells: Ints, counts: Ints) -> bytes:
        sizes = (0, self._width, COUNT_MIN_DEPTH, _SEED_HASH, 0)
        if len(cells) == 0:
            return struct.pack("<4BIIBHB", 2, 1, 18, 1, *sizes)
        table = np.zeros(self._width * COUNT_MIN_DEPTH, dtype="<f8")
        table[cells] = counts
        rows = table[: self._width].sum()
        return struct.pack("<4BIIBHBd", 2, 1, 18, 0, *sizes, rows) + table.tobytes()


def _elements(column: pa.Array) -> list[npt.NDArray[Any]]:
    """The lists of a column of lists of integers."""
    numbers = np.asarray(column.flatten())
    return np.split(numbers, np.cumsum(np.asarray(column.value_lengths()))[:-1]) if len(column) else []
