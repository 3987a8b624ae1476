"""Which keys have most rows: an estimate from a sample of the rows that a task packs.

Of up to 500,000 rows, 10,000 are counted, so the estimate costs next to nothing. A key with 1 % of the rows is 100 of
the sample, give or take 10.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import json

from headrace.operators.state.ids import Hashes
from headrace.operators.state.table import column_of, hashes_of

SAMPLE_MAX = 10_000
KEYS_MAX = 10
"""The keys that a task reports of the rows that it packs together."""

KEY_LENGTH_MAX = 200
"""Characters of a key in a report."""

_STEP = 0x9E3779B97F4A7C15
"""Rows may have a pattern that repeats, so the distance between sampled rows is not constant: each is at the fraction
part of a multiple of the golden ratio."""


def key_counts(rows: pa.Table, keys: list[str], bucket_count: int) -> bytes:
    """The most frequent keys with their buckets and numbers of rows, and the numbers of rows of all buckets, as JSON.

    `rows` have `h1`, `h2` and the columns of the key.
    """
    total = rows.num_rows
    first, _ = hashes_of(rows)
    positions = _sampled(total)
    sampled: Hashes = first[positions]
    scale = total / len(positions)
    hashes, heads, counts = np.unique(sampled, return_index=True, return_counts=True)
    buckets = np.bincount((sampled % np.uint64(bucket_count)).astype(np.int64), minlength=bucket_count)
    order = np.argsort(-counts, kind="stable")[:KEYS_MAX]
    order = order[counts[order] > 1]
    columns = [_listed(column_of(rows, name).take(pa.array(positions[heads[order]]))) for name in keys]
    texts = [", ".join(map(str, each))[:KEY_LENGTH_MAX] for each in zip(*columns, strict=True)]
    places = (hashes[order] % np.uint64(bucket_count)).tolist()
    found = zip(texts, places, np.rint(counts[order] * scale).astype(np.int64).tolist(), strict=True)
    return json.encode({"rows": total, "keys": list(found), "buckets": np.rint(buckets * scale).tolist()})


def _listed(values: pa.Array) -> list[Any]:
    """The values. If Python does not have one, such as a time after the year 9999: their numbers or bytes."""
    try:
        return values.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, UnicodeDecodeError):
        kind = values.type
        plain = (
            pa.binary() if pa.types.is_string(kind) else pa.int32() if kind.bit_width == 32 else pa.int64()
        )
        return values.cast(plain).to_pylist()  # type: ignore[no-any-return]


def _sampled(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if count <= SAMPLE_MAX:
        return np.arange(count)
    with np.errstate(over="ignore"):
        fractions = np.arange(SAMPLE_MAX, dtype=np.uint64) * np.uint64(_STEP)
    return (fractions.astype(np.float64) / 2.0**64 * count).astype(np.int64)
