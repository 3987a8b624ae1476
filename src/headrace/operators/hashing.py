"""What the hashes of whole columns share: the bytes of texts, and the rotation of bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.state.ids import Hashes, Ints

WORD_BYTES = 8

Bytes = npt.NDArray[np.uint8]


def bytes_of(texts: pa.Array) -> tuple[Ints, Bytes]:
    """The offsets of texts or binaries, and their bytes with at least two words of zeros behind them. The bytes are
    whole words."""
    binary = texts.cast(pa.large_binary())
    _, edges, content = binary.buffers()
    ends = np.frombuffer(edges, dtype=np.int64)[binary.offset : binary.offset + len(binary) + 1]
    inside = np.frombuffer(content or b"", dtype=np.uint8)[ends[0] : ends[-1]]
    padded = np.zeros((len(inside) // WORD_BYTES + 3) * WORD_BYTES, dtype=np.uint8)
    padded[: len(inside)] = inside
    return ends - ends[0], padded


def rotated(bits: Hashes, count: int) -> Hashes:
    return bits << np.uint64(count) | bits >> np.uint64(64 - count)
