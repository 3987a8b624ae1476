"""xxHash (64 bits) of whole columns, as Spark's `xxhash64` computes it.

Spark chains columns: the hash of a value is the seed of the next column's value, and a null leaves the hash unchanged.
Seeds are an array with one seed for all rows, or one for each. A hash of a column with one seed is computed for its
distinct texts only, if they repeat.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from headrace.operators.hashing import WORD_BYTES, Bytes, bytes_of, rotated
from headrace.operators.state.ids import Hashes, Ints

SEED = 42
"""The seed of `xxhash64(…)` in Spark."""

LONG_DIGITS_MAX = 18
"""Spark hashes decimals with at most this number of digits as 64-bit integers."""

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)

_NAN_64, _NAN_32 = np.uint64(0x7FF8000000000000), np.uint64(0x7FC00000)
"""The bits of Java's NaN."""

_STRIPE_WORDS = 4
_STRIPE_BYTES = _STRIPE_WORDS * WORD_BYTES

_SAMPLE_ROWS = 4_096
_REPEATS_MIN = 4
"""How often each text must occur on average, so that only the distinct texts are hashed."""


_INTS = (kinds.is_boolean, kinds.is_int8, kinds.is_int16, kinds.is_int32, kinds.is_date32)
_OTHERS = (kinds.is_float32, kinds.is_float64, kinds.is_string, kinds.is_binary)


def can_hash(kind: pa.DataType) -> bool:
    if kinds.is_decimal128(kind):
        return bool(kind.precision <= LONG_DIGITS_MAX)
    return _is_int(kind) or _is_long(kind) or any(each(kind) for each in _OTHERS)


def _is_int(kind: pa.DataType) -> bool:
    """Whether Spark hashes these values as 32-bit integers."""
    return any(each(kind) for each in _INTS)


def _is_long(kind: pa.DataType) -> bool:
    return bool(kinds.is_int64(kind) or (kinds.is_timestamp(kind) and kind.unit == "us"))


class HashedColumn:
    """A column with values that can be hashed, with several seeds after each other."""

    def __init__(self, values: pa.Array) -> None:
        self._count = len(values)
        self._is_valid = None if values.null_count == 0 else np.asarray(values.is_valid())
        self._is_text = kinds.is_string(values.type) or kinds.is_binary(values.type)
        self._is_long = not (_is_int(values.type) or kinds.is_float32(values.type))
        if self._is_text:
            self._texts = _Texts(values if self._is_valid is None else values.drop_null())
        else:
            self._words = _words_of(values)

    def hashes(self, seeds: Hashes) -> Hashes:
        """The hashes of the values; of a null, its seed."""
        seeds = _as_one(seeds)
        with np.errstate(over="ignore"):
            if self._is_valid is None:
                return self._of_valid(seeds)
            if not self._is_text:
                return np.where(self._is_valid, self._of_valid(seeds), seeds)
            of_valid = seeds if len(seeds) == 1 else _as_one(seeds[self._is_valid])
            found = np.empty(self._count, dtype=np.uint64)
            found[:] = seeds
            found[self._is_valid] = self._of_valid(of_valid)
            return found

    def _of_valid(self, seeds: Hashes) -> Hashes:
        if self._is_text:
            return self._texts.hashes(seeds)
        return _hashes_of_longs(self._words, seeds) if self._is_long else _hashes_of_ints(self._words, seeds)


def _as_one(seeds: Hashes) -> Hashes:
    return seeds[:1] if len(seeds) > 1 and bool((seeds == seeds[0]).all()) else seeds


def _words_of(values: pa.Array) -> Hashes:
    """The bits that Spark hashes; 0 for nulls."""
    kind = values.type
    if kinds.is_decimal(kind):
        low = np.frombuffer(values.buffers()[1], dtype=np.uint64)[::2]
        return low[values.offset : values.offset + len(values)]
    if kinds.is_floating(kind):
        with np.errstate(invalid="ignore"):  # a signalling NaN
            numbers = values.fill_null(0).to_numpy() + kind.to_pandas_dtype()(0)  # -0.0 as 0.0
        words, nan = (
            (numbers.view(np.uint64), _NAN_64)
            if kinds.is_float64(kind)
            else (numbers.view(np.uint32).astype(np.uint64), _NAN_32)
        )
        return np.where(np.isnan(numbers), nan, words)
    if _is_long(kind):
        return np.asarray(values.view(pa.int64()).fill_null(0)).view(np.uint64)
    if kinds.is_date32(kind):
        values = values.view(pa.int32())
    integers = np.asarray(values.cast(pa.int32()).fill_null(0))
    return integers.view(np.uint32).astype(np.uint64)


def _hashes_of_ints(words: Hashes, seeds: Hashes) -> Hashes:
    return _spread(_with_half(seeds + _P5 + np.uint64(4), words))


def _hashes_of_longs(words: Hashes, seeds: Hashes) -> Hashes:
    return _spread(_with_word(seeds + _P5 + np.uint64(8), words))


class _Texts:
    """Texts without nulls. The distinct ones are found when they are first needed."""

    def __init__(self, values: pa.Array) -> None:
        self._values = values
        self._distinct: tuple[pa.Array, Ints] | None = None

    def hashes(self, seeds: Hashes) -> Hashes:
        if len(seeds) > 1 or not self._repeats():
            return _hashes_of_texts(self._values, seeds)
        if self._distinct is None:
            encoded = self._values.dictionary_encode()
            self._distinct = encoded.dictionary, np.asarray(encoded.indices)
        distinct, places = self._distinct
        return _hashes_of_texts(distinct, seeds)[places]

    def _repeats(self) -> bool:
        """Whether texts repeat often, by a sample: of N texts, n² / 2N in a sample of n are expected to be repeated."""
        sample = self._values.slice(0, _SAMPLE_ROWS)
        repeated = len(sample) - pc.count_distinct(sample).as_py()
        return bool(repeated * 2 * len(self._values) >= len(sample) ** 2 * _REPEATS_MIN)


def _hashes_of_texts(texts: pa.Array, seeds: Hashes) -> Hashes:
    """The hashes of the UTF-8 bytes. All texts take each step together, as far as they are long enough for it."""
    if len(texts) == 0:
        return np.empty(0, dtype=np.uint64)
    ends, content = bytes_of(texts)
    starts, lengths = ends[:-1], np.diff(ends)
    words = _Words(content)
    hashes = np.empty(len(texts), dtype=np.uint64)
    hashes[:] = seeds + _P5
    long = np.flatnonzero(lengths >= _STRIPE_BYTES)
    if len(long):
        own_seeds = np.broadcast_to(seeds, hashes.shape)[long]
        hashes[long] = _with_stripes(own_seeds, starts[long], lengths[long], words)
    hashes += lengths.view(np.uint64)
    rest = lengths % _STRIPE_BYTES
    places = starts + lengths - rest
    for number in range(_STRIPE_WORDS - 1):
        which = np.flatnonzero(rest >= (number + 1) * WORD_BYTES)
        if len(which) == 0:
            break
        hashes[which] = _with_word(hashes[which], words.at(places[which] + number * WORD_BYTES))
    return _spread(_with_tails(hashes, starts, lengths, words))


def _with_tails(hashes: Hashes, starts: Ints, lengths: Ints, words: _Words) -> Hashes:
    """The hashes with the last seven bytes at most: half a word, and then single bytes."""
    which = np.flatnonzero(lengths % WORD_BYTES)
    rest = lengths[which] % WORD_BYTES
    tails = words.at(starts[which] + lengths[which] - rest)
    mixed = hashes[which]
    has_half = np.flatnonzero(rest >= 4)
    mixed[has_half] = _with_half(mixed[has_half], tails[has_half] & np.uint64(0xFFFFFFFF))
    tails[has_half] >>= np.uint64(32)
    for number in range(3):
        has_byte = np.flatnonzero(rest % 4 > number)
        byte = tails[has_byte] >> np.uint64(8 * number) & np.uint64(0xFF)
        mixed[has_byte] = rotated(mixed[has_byte] ^ byte * _P5, 11) * _P1
    hashes[which] = mixed
    return hashes


def _with_stripes(seeds: Hashes, starts: Ints, lengths: Ints, words: _Words) -> Hashes:
    """The hashes of all full stripes of four words. The n-th stripes of all texts are mixed together."""
    stripes = lengths // _STRIPE_BYTES
    longest_first = np.argsort(-stripes, kind="stable")
    have_more = np.searchsorted(-stripes[longest_first], -np.arange(stripes.max()), side="left")
    seeds, starts = seeds[longest_first], starts[longest_first]
    lanes = np.stack([seeds + _P1 + _P2, seeds + _P2, seeds, seeds - _P1])
    offsets = WORD_BYTES * np.arange(_STRIPE_WORDS)[:, None]
    for number, count in enumerate(have_more):
        word = words.at(starts[:count] + number * _STRIPE_BYTES + offsets)
        lanes[:, :count] = rotated(lanes[:, :count] + word * _P2, 31) * _P1
    hashes = rotated(lanes[0], 1) + rotated(lanes[1], 7) + rotated(lanes[2], 12) + rotated(lanes[3], 18)
    for lane in lanes:
        hashes = (hashes ^ rotated(lane * _P2, 31) * _P1) * _P1 + _P4
    found = np.empty_like(hashes)
    found[longest_first] = hashes
    return found


class _Words:
    """The words of bytes, at any place."""

    def __init__(self, content: Bytes) -> None:
        self._words = content.view("<u8")

    def at(self, places: Ints) -> Hashes:
        number, shift = places >> 3, (places & 7).astype(np.uint64) << np.uint64(3)
        # A shift by all 64 bits is not defined.
        behind = self._words[number + 1] << (np.uint64(63) - shift) << np.uint64(1)
        found: Hashes = self._words[number] >> shift | behind
        return found


def _with_word(hashes: Hashes, words: Hashes) -> Hashes:
    return rotated(hashes ^ rotated(words * _P2, 31) * _P1, 27) * _P1 + _P4


def _with_half(hashes: Hashes, halves: Hashes) -> Hashes:
    return rotated(hashes ^ halves * _P1, 23) * _P2 + _P3


def _spread(bits: Hashes) -> Hashes:
    bits = (bits ^ bits >> np.uint64(33)) * _P2
    bits = (bits ^ bits >> np.uint64(29)) * _P3
    return bits ^ bits >> np.uint64(32)


def seed_array(seed: int) -> npt.NDArray[np.uint64]:
    return np.array([seed % 2**64], dtype=np.uint64)
