"""Sketches as bytes that Apache DataSketches reads and merges, in Python, Java or C++.

    theta_sketch(x)      distinct values    datasketches.compact_theta_sketch
    tdigest_sketch(x)    percentiles        datasketches.tdigest_double
    frequent_sketch(x)   frequent values    datasketches.frequent_strings_sketch

The states are those of `distinct`, `percentile` and `top`; only the results differ.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from headrace.operators.folds import Columns
from headrace.operators.sketches import DistinctFold, PercentileFold, TopFold, numbers_of_buckets
from headrace.operators.state.ids import Hashes, Ints

THETA_ENTRIES_MAX = 4_096
"""The number of hashes of a theta sketch, 32 KiB: smaller counts are exact, larger ones have a standard error of
1.6 %. It is the default of Spark's `theta_sketch_agg`."""

FREQUENT_LG_MAX = 11
FREQUENT_VALUES_MAX = 3 * 2**FREQUENT_LG_MAX // 4
"""The number of counted values. A map of DataSketches is at most three quarters full."""

DIGEST_K = 500
"""The compression that DataSketches applies when it merges the t-digest with others."""

_THETA_SEED = np.uint64(9001)
_THETA_SEED_HASH = 0x93CC
"""The default seed of DataSketches, and the hash of it in every sketch."""

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
            return struct.pack("<8B", 1, *head, _THETA_FLAGS | 0b100, *_THETA_SEED_HASH.to_bytes(2, "little"))
        is_exact = len(hashes) <= self._entries_max
        kept = hashes[: self._entries_max]
        start = struct.pack(
            "<6BHII", 2 if is_exact else 3, *head, _THETA_FLAGS, _THETA_SEED_HASH, len(kept), 0
        )
        theta = b"" if is_exact else struct.pack("<q", hashes[self._entries_max])
        return start + theta + kept.astype("<i8").tobytes()


def theta_hashes(numbers: Hashes) -> Hashes:
    """The hashes of 64-bit integers in a theta sketch: MurmurHash3 (x64, 128 bits) of their bytes, without one bit."""
    with np.errstate(over="ignore"):
        mixed = numbers * np.uint64(0x87C37B91114253D5)
        mixed = (mixed << np.uint64(31) | mixed >> np.uint64(33)) * np.uint64(0x4CF5AD432745937F)
        second = np.full(len(numbers), _THETA_SEED ^ np.uint64(8))
        first = (mixed ^ second) + second
        second = second + first
        return (_murmur_mix(first) + _murmur_mix(second)) >> np.uint64(1)


def _murmur_mix(bits: Hashes) -> Hashes:
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        bits = (bits ^ bits >> np.uint64(33)) * factor
    return bits ^ bits >> np.uint64(33)


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


def _elements(column: pa.Array) -> list[Ints]:
    """The lists of a column of lists of integers."""
    numbers = np.asarray(column.flatten())
    return np.split(numbers, np.cumsum(np.asarray(column.value_lengths()))[:-1]) if len(column) else []
