"""The stored queries of a shard as a matcher, kept in the Python worker between batches.

The state has the truth. Each change of the queries in the state has another token, and a matcher that was built for
another token is brought up to date by comparison: after a restart, after a batch that failed, or if another worker
processed the batches in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.search.document import listed
from headrace.operators.search.matcher import Matcher
from headrace.operators.search.query import Field
from headrace.operators.state.ids import Hashes, Ids, Ints, Mask, contains, distinct, ids_of, mixed, ranges
from headrace.operators.state.table import column_of, hashes_of, ints_of

SHARDS_CACHED_MAX = 16
"""Shards of all queries of a worker whose matchers are kept."""
DEAD_MIN = 10_000
"""Removed queries that a matcher may have beside as many others before it is built again."""


class StoredQueries:
    """`versions` have the columns of the state: `h1`, `h2`, `time`, `seq`, `until_us`, `program`, and `filters`.

    With `is_latest`, queries are valid for documents of any time.
    """

    def __init__(self, fields: Sequence[Field], filters: Sequence[str], *, is_latest: bool) -> None:
        self._filters = tuple(filters)
        self._is_latest = is_latest
        self.token: str | None = ""
        """That of the state that the matcher has; None while it is being changed."""
        self.matcher = Matcher(fields, filters=len(filters))
        self._owners: Ids = np.empty(0, dtype=np.complex128)
        self._prints: Hashes = np.empty(0, dtype=np.uint64)
        self._is_alive: Mask = np.empty(0, dtype=np.bool_)
        self._sorted: Ints = np.empty(0, dtype=np.int64)
        self._indexed: Ids = np.empty(0, dtype=np.complex128)

    @property
    def is_worn(self) -> bool:
        dead = int((~self._is_alive).sum())
        return dead > max(DEAD_MIN, len(self._is_alive) // 2)

    def stale_owners(self, versions: pa.Table) -> Ids:
        """Owners whose stored versions are not these: all versions of the state, with `h1`, `h2`, `time` and `seq`."""
        prints = fingerprints(versions)
        known = self._prints[self._is_alive]
        is_new = ~np.isin(prints, known)
        is_gone = ~np.isin(known, prints)
        return distinct(np.concatenate([owners_of(versions)[is_new], self._owners[self._is_alive][is_gone]]))

    def replace(self, owners: Ids, versions: pa.Table) -> None:
        """Replace all versions of these owners, which are sorted."""
        self._remove(self._numbers_of(owners))
        if versions.num_rows == 0:
            return
        self.matcher.add(
            column_of(versions, "program").to_pylist(),
            since_us=None if self._is_latest else ints_of(versions, "time"),
            until_us=None if self._is_latest else ints_of(versions, "until_us"),
            filters=[listed(column_of(versions, name)) for name in self._filters],
        )
        self._owners = np.concatenate([self._owners, owners_of(versions)])
        self._prints = np.concatenate([self._prints, fingerprints(versions)])
        self._is_alive = np.concatenate([self._is_alive, np.ones(versions.num_rows, dtype=np.bool_)])

    def owners(self, numbers: Ints) -> Ids:
        """The owners of queries, by their numbers in the matcher."""
        return self._owners[numbers]

    def prints(self, numbers: Ints) -> Hashes:
        return self._prints[numbers]

    def _remove(self, numbers: Ints) -> None:
        self.matcher.remove(numbers)
        self._is_alive[numbers] = False

    def _numbers_of(self, owners: Ids) -> Ints:
        """Most queries are found in a sorted index, those added since in a scan."""
        if len(self._owners) - len(self._sorted) > max(1_000, len(self._sorted) // 8):
            self._sorted = np.argsort(self._owners, kind="stable")
            self._indexed = self._owners[self._sorted]
        first = np.searchsorted(self._indexed, owners, side="left")
        end = np.searchsorted(self._indexed, owners, side="right")
        recent = np.flatnonzero(contains(owners, self._owners[len(self._sorted) :])) + len(self._sorted)
        return np.concatenate([self._sorted[ranges(first, end)], recent])


def owners_of(rows: pa.Table) -> Ids:
    return ids_of(*hashes_of(rows))


def fingerprints(versions: pa.Table) -> Hashes:
    """64 bits that identify a version: its key, its time, and its place among the changes of that time."""
    first, _ = hashes_of(versions)
    return mixed(mixed(first, ints_of(versions, "time")), ints_of(versions, "seq"))


_of_this_process: OrderedDict[Hashable, StoredQueries] = OrderedDict()


def stored_queries(
    owner: Hashable, fields: Sequence[Field], filters: Sequence[str], *, is_latest: bool
) -> StoredQueries:
    """The matcher of an operator's shard in this process; a new one if it is not cached."""
    found = _of_this_process.pop(owner, None)
    if found is None or found.is_worn:
        found = StoredQueries(fields, filters, is_latest=is_latest)
    _of_this_process[owner] = found
    while len(_of_this_process) > SHARDS_CACHED_MAX:
        _of_this_process.popitem(last=False)
    return found
