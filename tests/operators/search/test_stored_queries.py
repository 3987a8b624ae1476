"""The matcher of a shard, brought up to date with the state by comparison."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.operators.search import stored_queries as module
from headrace.operators.search.query import encode_query
from headrace.operators.search.stored_queries import StoredQueries, owners_of, stored_queries
from tests.operators.search.naive import FIELDS, PARSER

Version = tuple[int, int, int, str]
"""key, time, seq, text"""


def versions(*rows: Version) -> pa.Table:
    return pa.table(
        {
            "h1": pa.array([key << 20 for key, *_ in rows], pa.int64()),
            "h2": pa.array([key << 20 for key, *_ in rows], pa.int64()),
            "time": pa.array([time for _, time, *_ in rows], pa.int64()),
            "seq": pa.array([seq for _, _, seq, _ in rows], pa.int64()),
            "until_us": pa.array([2**62 for _ in rows], pa.int64()),
            "program": pa.array([encode_query(PARSER.parse(text)) for *_, text in rows], pa.binary()),
        }
    )


def found(stored: StoredQueries, text: str) -> list[complex]:
    hits = stored.matcher.match(
        stored.matcher.documents([(text, None, None, None)]), times_us=np.array([100])
    )
    return sorted(stored.owners(hits.queries).tolist(), key=lambda each: each.real)


def test_owners_whose_versions_differ_are_stale() -> None:
    stored = StoredQueries(FIELDS, [], is_latest=False)
    before = versions((1, 0, 0, "tea"), (2, 0, 0, "tea"), (3, 0, 0, "tea"))
    stored.replace(np.unique(owners_of(before)), before)
    after = versions((1, 0, 0, "tea"), (2, 5, 0, "pot"), (4, 0, 0, "tea"))
    stale = stored.stale_owners(after)
    assert (
        stale.tolist()
        == np.unique(owners_of(versions((2, 0, 0, "x"), (3, 0, 0, "x"), (4, 0, 0, "x")))).tolist()
    )
    stored.replace(stale, versions((2, 5, 0, "pot"), (4, 0, 0, "tea")))
    assert len(stored.stale_owners(after)) == 0
    assert found(stored, "tea") == owners_of(versions((1, 0, 0, "x"), (4, 0, 0, "x"))).tolist()
    assert found(stored, "pot") == owners_of(versions((2, 0, 0, "x"))).tolist()


def test_many_queries_are_replaced_by_key() -> None:
    stored = StoredQueries(FIELDS, [], is_latest=True)
    many = versions(*((key, 0, 0, f"w{key}") for key in range(3_000)))
    stored.replace(np.unique(owners_of(many)), many)
    one = versions((1_500, 1, 1, "tea"))
    stored.replace(owners_of(one), one)
    stored.replace(owners_of(one), versions((1_500, 2, 2, "pot")))
    assert found(stored, "w1500 tea pot") == owners_of(one).tolist()
    assert stored.matcher.alive == 3_000


def test_cache_keeps_the_shards_that_were_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARDS_CACHED_MAX", 2)
    first = stored_queries(("cache", 1), FIELDS, [], is_latest=False)
    assert stored_queries(("cache", 1), FIELDS, [], is_latest=False) is first
    for number in (2, 3):
        stored_queries(("cache", number), FIELDS, [], is_latest=False)
    assert stored_queries(("cache", 1), FIELDS, [], is_latest=False) is not first
