"""The id of a key: 104 bits of its hashes, as a number that sorts.

Spark hashes the key columns natively, twice. The two hashes become the real and the imaginary part of a complex number,
52 bits each, which a float holds exactly. Numpy orders complex numbers by the real part and then by the imaginary part,
so sorting and searching work on one array. Among ten million keys, the odds of a collision are 1 to 10^17.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.complex128]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

Number = TypeVar("Number", bound=np.number[Any])

ID_BYTES = 16

_UNUSED_BITS = np.uint64(12)


def ids_of(first: Hashes, second: Hashes) -> Ids:
    ids = np.empty(len(first), dtype=np.complex128)
    ids.real = (first >> _UNUSED_BITS).astype(np.float64)
    ids.imag = (second >> _UNUSED_BITS).astype(np.float64)
    return ids


def mixed(hashes: Hashes, with_numbers: Ints) -> Hashes:
    """The hash of a key together with a number, such as the start of a window."""
    with np.errstate(over="ignore"):
        return _scramble(hashes ^ _scramble(with_numbers.view(np.uint64) + np.uint64(0x9E3779B97F4A7C15)))


def _scramble(bits: Hashes) -> Hashes:
    """Each bit of the input changes about half of the bits of the output (the finaliser of SplitMix64)."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def is_first(*columns: npt.NDArray[Any]) -> Mask:
    """A mask of the elements that differ from the previous one in any of the columns, which are sorted together."""
    first = np.ones(len(columns[0]), dtype=np.bool_)
    first[1:] = np.logical_or.reduce([each[1:] != each[:-1] for each in columns])
    return first


def distinct(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The distinct values, sorted. `np.unique` has a table of hashes for it, which takes several times as long."""
    ordered = np.sort(values)
    return ordered[is_first(ordered)]


def segment_starts(*columns: npt.NDArray[Any]) -> Ints:
    """The start of each run of equal elements."""
    return np.flatnonzero(is_first(*columns))


def ranges(first: Ints, end: Ints) -> Ints:
    """The concatenation of first[0]…end[0]-1, first[1]…end[1]-1 and so on."""
    counts = end - first
    before = np.cumsum(counts) - counts
    found: Ints = np.arange(int(counts.sum()), dtype=np.int64) + np.repeat(first - before, counts)
    return found


def contains(sorted_ids: Ids, wanted: Ids) -> Mask:
    """A mask of the wanted ids that are among the sorted ones."""
    if len(sorted_ids) == 0:
        return np.zeros(len(wanted), dtype=np.bool_)
    places = np.searchsorted(sorted_ids, wanted)
    places[places == len(sorted_ids)] = 0
    found: Mask = sorted_ids[places] == wanted
    return found
