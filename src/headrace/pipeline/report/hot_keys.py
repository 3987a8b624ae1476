"""The keys that carry most rows of a batch, from the observed metrics of stateful operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, json

from headrace.plan_names import KEY_COUNTS, KEYS_METRIC, WORK_METRIC, WORK_TIMES

SHARE_MIN = 0.01
"""A key with a smaller share of the rows is no load, and its number of rows in a sample is imprecise."""

KEYS_MAX = 5
"""Keys per operator."""


class HotKey(Struct, frozen=True, kw_only=True):
    """A key that carries many rows of an operator."""

    operator: str
    key: str
    """the values of its columns"""
    rows: int
    """an estimate from a sample"""
    share: float
    """of all rows of the operator"""
    ms: float
    """the time of the state's bucket of this key, by the share of the key in the rows of the bucket"""


class KeyCounts(Struct, frozen=True, kw_only=True):
    """The report of one task on the rows that it packed together."""

    rows: int
    keys: list[tuple[str, int, int]]
    """key, bucket, rows"""
    buckets: list[float]
    """rows by bucket"""


def hot_keys(progress: Mapping[str, Any]) -> tuple[HotKey, ...]:
    """The most frequent keys of each operator in the batch of this progress; none if it had no rows."""
    observed = progress.get("observedMetrics") or {}
    found: list[HotKey] = []
    for name, metrics in observed.items():
        if name.startswith(KEYS_METRIC):
            identity = name.removeprefix(KEYS_METRIC)
            times = observed.get(f"{WORK_METRIC}{identity}") or {}
            parts = [json.decode(each, type=KeyCounts) for each in metrics.get(KEY_COUNTS) or ()]
            found += _of_operator(identity.partition(":")[0], parts, _times_us(times.get(WORK_TIMES) or ()))
    return tuple(found)


def _of_operator(operator: str, parts: Sequence[KeyCounts], times_us: Mapping[int, int]) -> list[HotKey]:
    total = sum(each.rows for each in parts)
    rows: Counter[tuple[str, int]] = Counter()
    bucket_rows: Counter[int] = Counter()
    for part in parts:
        for key, bucket, count in part.keys:
            rows[key, bucket] += count
        bucket_rows.update({bucket: round(count) for bucket, count in enumerate(part.buckets)})
    return [
        HotKey(
            operator=operator,
            key=key,
            rows=count,
            share=round(count / total, 4),
            ms=round(times_us.get(bucket, 0) / 1000 * min(count / max(bucket_rows[bucket], 1), 1), 1),
        )
        for (key, bucket), count in rows.most_common(KEYS_MAX)
        if count >= SHARE_MIN * total
    ]


def _times_us(texts: Sequence[str]) -> Counter[int]:
    times: Counter[int] = Counter()
    for each in texts:
        bucket, _, took_us = each.partition(":")
        times[int(bucket)] += int(took_us)
    return times
