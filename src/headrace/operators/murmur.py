"""MurmurHash3 (x64, 128 bits) of whole columns, as Apache DataSketches hashes values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.operators.hashing import Bytes, bytes_of, rotated
from headrace.operators.state.ids import Hashes, Ints, ranges

_BLOCK_BYTES = 16
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)

Pair = tuple[Hashes, Hashes]
"""The two halves of 128-bit hashes, or of what becomes them."""


def hashes_of_numbers(numbers: Hashes, seed: np.uint64) -> Pair:
    """The hashes of 64-bit integers."""
    with np.errstate(over="ignore"):
        return _finished((_first_word(numbers) ^ seed, np.full(len(numbers), seed)), np.uint64(8))


def hashes_of_texts(texts: pa.Array, seeds: Hashes) -> Pair:
    """The hashes of the UTF-8 bytes of texts without nulls, by seed and text."""
    ends, content = bytes_of(texts)
    lengths = np.diff(ends)
    with np.errstate(over="ignore"):
        start = np.repeat(seeds[:, None], len(texts), axis=1)
        state = _with_blocks((start, start.copy()), ends[:-1], lengths // _BLOCK_BYTES, content)
        first, second = _words(_tails(ends, lengths, content))
        return _finished(
            (state[0] ^ _first_word(first), state[1] ^ _second_word(second)), lengths.astype(np.uint64)
        )


def _with_blocks(state: Pair, starts: Ints, blocks: Ints, content: Bytes) -> Pair:
    """The state with all full blocks. The n-th blocks of all texts are mixed together."""
    if not blocks.any():
        return state
    ends = np.cumsum(blocks)
    places = np.repeat(starts, blocks) + _BLOCK_BYTES * ranges(np.zeros_like(blocks), blocks)
    first, second = _words(content[places[:, None] + np.arange(_BLOCK_BYTES)])
    first, second = _first_word(first), _second_word(second)
    longest_first = np.argsort(-blocks, kind="stable")
    have_more = np.searchsorted(-blocks[longest_first], -np.arange(blocks.max()), side="left")
    front, back = state
    for number, count in enumerate(have_more):
        texts = longest_first[:count]
        at = (ends - blocks)[texts] + number
        mixed = (rotated(front[:, texts] ^ first[at], 27) + back[:, texts]) * np.uint64(5)
        front[:, texts] = mixed + np.uint64(0x52DCE729)
        mixed = (rotated(back[:, texts] ^ second[at], 31) + front[:, texts]) * np.uint64(5)
        back[:, texts] = mixed + np.uint64(0x38495AB5)
    return front, back


def _tails(ends: Ints, lengths: Ints, content: Bytes) -> Bytes:
    """The bytes behind the last full block of each text, and zeros."""
    places = (ends[1:] - lengths % _BLOCK_BYTES)[:, None] + np.arange(_BLOCK_BYTES)
    return np.where(places < ends[1:, None], content[np.minimum(places, len(content) - 1)], 0).astype(
        np.uint8
    )


def _words(blocks: Bytes) -> Pair:
    words = np.ascontiguousarray(blocks).view("<u8")
    return words[:, 0], words[:, 1]


def _first_word(words: Hashes) -> Hashes:
    return rotated(words * _FIRST_FACTOR, 31) * _SECOND_FACTOR


def _second_word(words: Hashes) -> Hashes:
    return rotated(words * _SECOND_FACTOR, 33) * _FIRST_FACTOR


def _finished(state: Pair, lengths: Hashes | np.uint64) -> Pair:
    front, back = state[0] ^ lengths, state[1] ^ lengths
    front = front + back
    back = back + front
    front, back = _spread(front), _spread(back)
    front = front + back
    return front, back + front


def _spread(bits: Hashes) -> Hashes:
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        bits = (bits ^ bits >> np.uint64(33)) * factor
    return bits ^ bits >> np.uint64(33)
