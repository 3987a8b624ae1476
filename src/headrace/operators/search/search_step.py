"""The step of a search: the stored queries of one shard, and the documents that meet them.

The input has changes of the queries, each in the shard of its key, and documents, each in all shards. The state has the
versions of the queries that a document may still need; documents that wait until the watermark has passed their time,
so that they meet the queries of that time; how many hits each limited query had; and one row with the token of the
queries, by which a worker knows whether the matcher that it has cached is up to date (`stored_queries.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, to_builtins

from headrace.operators.late_rows import LATE_ROWS
from headrace.operators.search.document import Document, listed
from headrace.operators.search.evaluate import score
from headrace.operators.search.highlight import highlights
from headrace.operators.search.matcher import Hits, Matcher
from headrace.operators.search.query import Field
from headrace.operators.search.rate_limit import HitCount
from headrace.operators.search.stored_queries import StoredQueries, fingerprints, owners_of, stored_queries
from headrace.operators.state.ids import Ids, Ints, contains, distinct, ids_of, is_first, mixed
from headrace.operators.state.run import COLUMN, ID, LABEL, NEVER, TOMBSTONE, ids_column
from headrace.operators.state.step import BEGINNING_US, Step, StepResult, StepTime
from headrace.operators.state.table import (
    HASHES,
    StateTable,
    column_of,
    filled,
    hashes_of,
    ids_in,
    ints_of,
    state_schema,
    with_column,
)

SCORE, HIGHLIGHTS, SUPPRESSED = "score", "highlights", "suppressed"
HIGHLIGHT_TYPE = pa.list_(pa.struct([pa.field("column", pa.string()), pa.field("text", pa.string())]))


class Side(IntEnum):
    """The kind of an input row."""

    DOCUMENT = 0
    CHANGE = 1
    REJECTED = 2
    """A query that could not be parsed: it is reported, and deletes the version before it if it has a key."""


class Kept(IntEnum):
    """The kind of a state row."""

    VERSION = 0
    EARLY = 1
    """A document that waits for the watermark to pass its time."""
    COUNT = 2
    """The hits of a limited query."""
    TOKEN = 3


TOKEN_ID: Ids = np.array([-0.5 - 0.5j])


class SearchRules(Struct, frozen=True, kw_only=True):
    is_latest: bool = False
    """Whether documents meet the newest queries, instead of those of their time."""
    per_us: int | None = None
    """The window of rate limits; None if there are none."""
    with_score: bool = True
    fragments: int = 3
    """How many highlights a hit has at most; 0 for none."""
    mark: tuple[str, str] = ("**", "**")
    shards: int = 1


class SearchStep(Step):
    """The input has `h1`, `h2` (of a query the hashes of its key, of a document those of its columns), `shard`, `side`,
    `time`, `seq`, `deleted`, the columns of documents `l0`…, those of queries `r0`…, the values of the filters of
    queries `q0`…, `program` (the encoded query), `hits_max`, `reason` and `original`.
    """

    def __init__(
        self,
        *,
        rules: SearchRules,
        owner: str,
        fields: Sequence[Field],
        sources: Sequence[str],
        columns: Sequence[pa.Field],
        query_columns: Sequence[pa.Field],
        filters: Sequence[tuple[str, pa.DataType]],
        emitted: Sequence[str] | None = None,
    ) -> None:
        """`emitted` are the names of the documents' columns in the output; all by default."""
        self.rules = rules
        self.owner = owner
        self.fields = tuple(fields)
        self.sources = tuple(sources)
        """The columns `l…` of the fields."""
        self.due_column = None if rules.is_latest else "due_us"
        row_columns = [f"l{number}" for number in range(len(columns))]
        is_emitted = [emitted is None or each.name in emitted for each in columns]
        self.row_columns = [name for name, is_own in zip(row_columns, is_emitted, strict=True) if is_own]
        self.query_columns = [f"r{number}" for number in range(len(query_columns))]
        self.row_filters = [name for name, _ in filters]
        """The columns `l…` that a document and a query must have in common."""
        self.query_filters = [f"q{number}" for number in range(len(filters))]
        named = [*columns, *query_columns]
        payload = [
            pa.field(name, each.type, metadata={COLUMN if name[0] == "r" else LABEL: each.name.encode()})
            for name, each in zip([*row_columns, *self.query_columns], named, strict=True)
        ]
        payload += [pa.field(name, kind) for name, (_, kind) in zip(self.query_filters, filters, strict=True)]
        payload += [pa.field("program", pa.binary()), pa.field("hits_max", pa.int64())]
        numbers = [pa.field(name, pa.int64()) for name in (*HASHES, "time", "seq")]
        deleted = pa.field("deleted", pa.bool_())
        self.input_schema = pa.schema(
            [
                *numbers,
                pa.field("shard", pa.int32()),
                pa.field("side", pa.int8()),
                deleted,
                *payload,
                pa.field("reason", pa.string()),
                pa.field("original", pa.string()),
            ]
        )
        counts = [pa.field(name, pa.int64()) for name in ("due_us", "until_us", "count", "suppressed")]
        kept = [pa.field("kept", pa.int8()), pa.field("shard", pa.int32()), deleted]
        self.state_schema = state_schema([*numbers, *counts, *kept, *payload, pa.field("token", pa.string())])
        own = [each for each, is_own in zip(columns, is_emitted, strict=True) if is_own]
        output = [pa.field(each.name, each.type) for each in [*own, *query_columns]]
        output += [pa.field(SCORE, pa.float64())] if rules.with_score else []
        output += [pa.field(HIGHLIGHTS, HIGHLIGHT_TYPE)] if rules.fragments else []
        output += [pa.field(SUPPRESSED, pa.int64())] if rules.per_us else []
        self.output_schema = pa.schema(output)

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        side = ints_of(rows, "side")
        documents = rows.filter(pa.array(side == Side.DOCUMENT))
        is_late = np.zeros(documents.num_rows, dtype=np.bool_)
        if not self.rules.is_latest:
            is_late = ints_of(documents, "time") < time.late_us
        rejected = rows.filter(pa.array(side == Side.REJECTED))
        search = Search(
            self,
            table,
            changes=self.as_state(rows.filter(pa.array(side != Side.DOCUMENT)), Kept.VERSION),
            documents=self.as_state(documents.filter(pa.array(~is_late)), Kept.EARLY),
            time=time,
        )
        is_counting = documents.num_rows and ints_of(documents, "shard")[0] == 0
        return StepResult(
            rows=search.kept,
            deleted=search.deleted,
            output=search.output,
            late_rows=int(is_late.sum()) if is_counting else 0,
            late=_letters(rejected),
        )

    def as_state(self, rows: pa.Table, kept: Kept) -> pa.Table:
        """Input rows in the columns of the state. A key that is null is not stored."""
        if kept is Kept.VERSION:
            rows = rows.filter(pc.is_valid(column_of(rows, self.query_columns[0])))
        first, second = hashes_of(rows)
        times_us = ints_of(rows, "time")
        ids = ids_of(first, second)
        if kept is Kept.EARLY:
            ids = ids_of(mixed(first, times_us), mixed(second, times_us))
        columns = {name: column_of(rows, name) for name in rows.column_names}
        columns["id"] = ids_column(ids)
        columns["due_us"] = pa.array(times_us + 1)
        defaults = {"kept": int(kept), "until_us": NEVER, "count": 0, "suppressed": 0}
        return filled(self.state_schema, columns, rows.num_rows, defaults)


class Search:
    """One step of a shard: the hits of the documents that are ready, and the new state."""

    def __init__(
        self, step: SearchStep, table: StateTable, *, changes: pa.Table, documents: pa.Table, time: StepTime
    ) -> None:
        self._step = step
        self._rules = step.rules
        self._table = table
        self._watermark_us = time.watermark_us
        is_early = np.zeros(documents.num_rows, dtype=np.bool_)
        if not self._rules.is_latest:
            is_early = ints_of(documents, "time") >= time.watermark_us
        due = self._due()
        waited = _only(due, Kept.EARLY)
        ready = pa.concat_tables([waited, documents.filter(pa.array(~is_early))]).combine_chunks()
        changed = distinct(np.concatenate([owners_of(changes), owners_of(_only(due, Kept.VERSION))]))
        token = table.take(TOKEN_ID)
        self._token = column_of(token, "token")[0].as_py() if token.num_rows else ""
        self._shard = _shard_of(token, changes, documents, waited)
        self._versions = self._merged(changed, changes)
        self._counts: dict[complex, HitCount] = {}
        self.output = step.output_schema.empty_table()
        new_token = step.state_schema.empty_table()
        if len(changed) or ready.num_rows:
            stored = self._stored()
            stored.replace(changed, _valid(self._versions))
            self._emit(stored, ready)
            new_token = self._keep_token(stored, changed)
        self._keep(changed, documents.filter(pa.array(is_early)), ids_in(waited), new_token)

    def _due(self) -> pa.Table:
        if self._step.due_column is None:
            return self._step.state_schema.empty_table()
        return self._table.take(self._table.due("due_us", self._watermark_us))

    def _merged(self, owners: Ids, changes: pa.Table) -> pa.Table:
        """The versions of the changed queries: one for each time, or only the newest; each with its end."""
        before = _only(self._table.take(owners), Kept.VERSION)
        together = pa.concat_tables([before, changes]).combine_chunks()
        numbers = np.searchsorted(owners, owners_of(together))
        times_us = ints_of(together, "time")
        order = np.lexsort((ints_of(together, "seq"), times_us, numbers))
        numbers, times_us = numbers[order], times_us[order]
        is_last = np.ones(len(order), dtype=np.bool_)
        is_last[:-1] = is_first(*([numbers] if self._rules.is_latest else [numbers, times_us]))[1:]
        numbers, times_us = numbers[is_last], times_us[is_last]
        until_us = np.full(len(numbers), NEVER)
        until_us[:-1] = np.where(numbers[1:] == numbers[:-1], times_us[1:], NEVER)
        merged = together.take(pa.array(order[is_last])).combine_chunks()
        return with_column(merged, "until_us", pa.array(until_us))

    def _stored(self) -> StoredQueries:
        """The matcher of this shard, with the versions of the state before this step."""
        step = self._step
        owner = (step.owner, self._shard)
        stored = stored_queries(owner, step.fields, step.query_filters, is_latest=self._rules.is_latest)
        if stored.token != self._token:
            stored.token = None
            columns = [ID, TOMBSTONE, *HASHES, "time", "seq", "kept", "deleted"]
            parts = [run.rows.select(columns) for run in self._table.runs]
            owners = stored.stale_owners(_valid(_only(self._table.current(parts), Kept.VERSION)))
            stored.replace(owners, _valid(_only(self._table.take(owners), Kept.VERSION)))
        stored.token = None
        return stored

    def _emit(self, stored: StoredQueries, rows: pa.Table) -> None:
        step, matcher = self._step, stored.matcher
        if rows.num_rows == 0 or matcher.alive == 0:
            return
        rows = rows.take(pa.array(np.lexsort((*hashes_of(rows), ints_of(rows, "time"))))).combine_chunks()
        contents = zip(*(listed(column_of(rows, name)) for name in step.sources), strict=True)
        documents = matcher.documents(contents)
        found = matcher.match(
            documents,
            times_us=None if self._rules.is_latest else ints_of(rows, "time"),
            filters=[listed(column_of(rows, name)) for name in step.row_filters],
        )
        queries = self._query_rows(stored, found.queries)
        more: list[pa.Array] = []
        if self._rules.per_us is not None:
            suppressed = self._suppressed(queries, ints_of(rows, "time")[found.documents], self._rules.per_us)
            is_kept = suppressed >= 0
            found = Hits(found.documents[is_kept], found.queries[is_kept])
            queries = queries.filter(pa.array(is_kept))
            more = [pa.array(suppressed[is_kept])]
        hits = rows.take(pa.array(found.documents))
        own = [column_of(hits, name) for name in step.row_columns]
        own += [column_of(queries, name) for name in step.query_columns]
        self.output = pa.table(
            [*own, *self._scores(matcher, documents, found), *more], schema=step.output_schema
        )

    def _query_rows(self, stored: StoredQueries, numbers: Ints) -> pa.Table:
        """The state rows of these queries, one for each."""
        numbers, which = np.unique(numbers, return_inverse=True)
        owners = distinct(stored.owners(numbers))
        unchanged = owners[~contains(distinct(owners_of(self._versions)), owners)]
        rows = pa.concat_tables([self._versions, _only(self._table.take(unchanged), Kept.VERSION)])
        prints = fingerprints(rows)
        order = np.argsort(prints)
        places = order[np.searchsorted(prints[order], stored.prints(numbers))]
        return rows.take(pa.array(places[which])).combine_chunks()

    def _suppressed(self, queries: pa.Table, times_us: Ints, per_us: int) -> Ints:
        """For each hit, how many hits of its query were suppressed before it; -1 if it is suppressed itself.

        Hits are in the order of the documents, which are in the order of their time.
        """
        owners = owners_of(queries)
        counted = self._table.take(count_ids(distinct(owners)))
        names = ("time", "count", "suppressed")
        for owner, *numbers in zip(
            count_ids(ids_in(counted)).tolist(),
            *(ints_of(counted, name).tolist() for name in names),
            strict=True,
        ):
            self._counts[owner] = HitCount(*numbers)
        limits = column_of(queries, "hits_max").to_pylist()
        found = np.empty(len(owners), dtype=np.int64)
        for place, (owner, time_us, hits_max) in enumerate(
            zip(owners.tolist(), times_us.tolist(), limits, strict=True)
        ):
            count = self._counts.setdefault(owner, HitCount(BEGINNING_US))
            passed = count.passed(time_us, hits_max, per_us)
            found[place] = -1 if passed is None else passed
        return found

    def _scores(self, matcher: Matcher, documents: Sequence[Document], found: Hits) -> list[pa.Array]:
        rules = self._rules
        if not (rules.with_score or rules.fragments):
            return []
        pairs = [
            (matcher.query(number), documents[place])
            for place, number in zip(found.documents.tolist(), found.queries.tolist(), strict=True)
        ]
        columns = []
        if rules.with_score:
            columns.append(pa.array([score(*pair) for pair in pairs], pa.float64()))
        if rules.fragments:
            made = [highlights(*pair, count=rules.fragments, mark=rules.mark) for pair in pairs]
            columns.append(pa.array(to_builtins(made), HIGHLIGHT_TYPE))
        return columns

    def _keep_token(self, stored: StoredQueries, changed: Ids) -> pa.Table:
        """The row of the token, if queries changed. The matcher of this worker is up to date with it."""
        if len(changed) == 0:
            stored.token = self._token
            return self._step.state_schema.empty_table()
        kept = self._kept_versions()
        if kept.num_rows < self._versions.num_rows:
            stored.replace(changed, _valid(kept))
        digest = hashlib.blake2b(str(self._token).encode(), digest_size=16)
        digest.update(changed.tobytes() + fingerprints(kept).tobytes())
        stored.token = digest.hexdigest()
        columns = {"id": ids_column(TOKEN_ID), "token": pa.array([stored.token])}
        defaults = {"kept": int(Kept.TOKEN), "due_us": NEVER, "shard": self._shard}
        return filled(self._step.state_schema, columns, 1, defaults)

    def _keep(self, changed: Ids, early: pa.Table, waited: Ids, token: pa.Table) -> None:
        versions = self._kept_versions()
        forgotten = changed[~contains(distinct(owners_of(versions)), changed)]
        with_early = self._table.take(distinct(ids_in(early)))
        counts = self._kept_counts(forgotten)
        self.kept = pa.concat_tables([versions, with_early, early, counts, token]).combine_chunks()
        gone = [changed, waited, count_ids(forgotten) if self._rules.per_us else forgotten]
        gone_ids = np.concatenate(gone)
        self.deleted = distinct(gone_ids[~contains(distinct(ids_in(self.kept)), gone_ids)])

    def _kept_versions(self) -> pa.Table:
        """The versions that documents may still need, of the queries that change in this step."""
        deleted = np.asarray(column_of(self._versions, "deleted"))
        if self._rules.is_latest:
            return with_column(self._versions, "due_us", pa.array(np.full(len(deleted), NEVER))).filter(
                pa.array(~deleted)
            )
        # A deletion is not stored any more when no document may need an earlier version.
        ends_us = np.where(deleted, ints_of(self._versions, "time"), ints_of(self._versions, "until_us"))
        is_kept = ends_us > self._watermark_us
        return with_column(self._versions, "due_us", pa.array(ends_us)).filter(pa.array(is_kept))

    def _kept_counts(self, forgotten: Ids) -> pa.Table:
        """The counts that changed, without those of deleted queries."""
        lost = set(forgotten.tolist())
        kept = {owner: count for owner, count in self._counts.items() if owner not in lost}
        columns = {
            "id": ids_column(count_ids(np.array(list(kept), dtype=np.complex128))),
            "time": pa.array([each.window_us for each in kept.values()], pa.int64()),
            "count": pa.array([each.count for each in kept.values()], pa.int64()),
            "suppressed": pa.array([each.suppressed for each in kept.values()], pa.int64()),
        }
        return filled(self._step.state_schema, columns, len(kept), {"kept": int(Kept.COUNT), "due_us": NEVER})


def count_ids(owners: Ids) -> Ids:
    """The ids of the counts of queries. Ids of keys have no negative parts; applied twice, this is the id again."""
    return -owners - (1 + 1j)


def _valid(versions: pa.Table) -> pa.Table:
    """The versions that can match a document."""
    return versions.filter(pc.invert(column_of(versions, "deleted"))).combine_chunks()


def _only(rows: pa.Table, kept: Kept) -> pa.Table:
    return rows.filter(pa.array(ints_of(rows, "kept") == kept)).combine_chunks()


def _shard_of(*tables: pa.Table) -> int | None:
    for rows in tables:
        if rows.num_rows:
            return int(column_of(rows, "shard")[0].as_py())
    return None


def _letters(rejected: pa.Table) -> pa.Table | None:
    """Dead letters of queries."""
    if rejected.num_rows == 0:
        return None
    columns = {name: column_of(rejected, name) for name in ("reason", "original")}
    return filled(LATE_ROWS, columns, rejected.num_rows, {})
