"""State whose rows are only added, and expire when the watermark reaches their time.

Nothing is written when a row expires: the table knows until when its rows have expired, and a run without live rows is
dropped. So a row is written once, and again when its run is merged. Unlike in other tables, an id may have rows in
several runs: none replaces another one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.state.ids import Ids, Mask
from headrace.operators.state.run import ID, TOMBSTONE, Run, ids_of_column
from headrace.operators.state.table import StateTable

DUE = "due_us"
"""The column with the watermark at which a row expires."""

NOTHING_EXPIRED_US = np.iinfo(np.int64).min

LIKE_MAX = 8
"""How many runs of similar size are merged. Each run is searched in every step."""

_LIVE_MIN = 0.25
"""The least share of live rows in a run: with fewer, it is written again without the others."""


class ExpiringTable(StateTable):
    """An immutable list of runs in any order, and the watermark until which rows have expired."""

    expired_us: int

    def __init__(
        self, schema: pa.Schema, runs: Sequence[Run] = (), *, expired_us: int = NOTHING_EXPIRED_US
    ) -> None:
        super().__init__(schema, runs)
        self.expired_us = expired_us

    def all_rows(self) -> pa.Table:
        parts = [run.rows.filter(pa.array(self.live(run))).drop_columns([TOMBSTONE]) for run in self.runs]
        return pa.concat_tables(parts) if parts else self.schema.empty_table()

    def live(self, run: Run) -> Mask:
        found: Mask = run.ints(DUE) > self.expired_us
        return found

    def expires_until(self, watermark_us: int) -> bool:
        """Whether a live row expires at this watermark."""
        return any(run.earliest_after(DUE, self.expired_us) <= watermark_us for run in self.runs)

    def with_changes(self, rows: pa.Table, deleted: Ids) -> ExpiringTable:
        assert rows.schema.equals(self.schema), (rows.schema, self.schema)
        assert len(deleted) == 0, "rows of this table expire"
        if rows.num_rows == 0:
            return self
        return ExpiringTable(self.schema, [*self.runs, Run.of(rows, deleted)], expired_us=self.expired_us)

    def expired(self, watermark_us: int) -> ExpiringTable:
        """The table without the rows that expire at this watermark."""
        after = self
        if self.expires_until(watermark_us):
            after = ExpiringTable(self.schema, self.runs, expired_us=watermark_us)
        return ExpiringTable(self.schema, list(after._merged()), expired_us=after.expired_us)

    def _merged(self) -> Iterator[Run]:
        live = [int(self.live(run).sum()) for run in self.runs]
        kept = [(run, count) for run, count in zip(self.runs, live, strict=True) if count]
        groups: dict[int, list[Run]] = {}
        for run, count in kept:
            groups.setdefault(_magnitude(count), []).append(run)
        merged = {id(run) for runs in groups.values() if len(runs) >= LIKE_MAX for run in runs}
        for run, count in kept:
            if id(run) not in merged:
                yield self._merge([run]) if count < _LIVE_MIN * len(run) else run
        for runs in groups.values():
            if len(runs) >= LIKE_MAX:
                yield self._merge(runs)

    def _merge(self, runs: Sequence[Run]) -> Run:
        rows = pa.concat_tables([run.rows.filter(pa.array(self.live(run))) for run in runs]).combine_chunks()
        if len(runs) > 1:
            order = np.argsort(ids_of_column(rows.column(ID)), kind="stable")
            rows = rows.take(pa.array(order)).combine_chunks()
        return Run(rows)


def table_of(schema: pa.Schema, runs: Sequence[Run], expired_us: int | None) -> StateTable:
    """The state with these runs. `expired_us` is None if it is not one whose rows expire."""
    if expired_us is None:
        return StateTable(schema, runs)
    return ExpiringTable(schema, runs, expired_us=expired_us)


def _magnitude(count: int) -> int:
    return int(math.log(count, LIKE_MAX))
