"""Enrichment of rows with the entry of a table, which is given as the stream of its changes, or as bounded rows.

Both inputs go to one step (`enrich_step.py`), which stores the entries of the table in the state of their buckets. If
only the table is bounded, no state is needed (`bounded_table.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from headrace.operators.emitted_times import (
    emitted_time,
    lag_of,
    panes_of,
    require_final_rows,
    with_emitted_time,
)
from headrace.operators.joins.enrich_step import ALWAYS_US, EnrichRules, EnrichStep, Side
from headrace.operators.joins.sides import (
    On,
    Pairs,
    code,
    names_in_result,
    read_on,
    require_frame,
    require_like_keys,
    require_like_sides,
)
from headrace.operators.joins.table_changes import TableChanges
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    any_null,
    duration_us,
    event_time_column,
    names,
    require_columns,
    require_one_of,
    require_text,
    require_watermark,
    time_name,
    time_us,
)
from headrace.operators.state.ids import Hashes
from headrace.operators.state.table import hashes_of, ints_of
from headrace.operators.tables.columns import BEFORE, as_changelog
from headrace.operators.tables.weighted import OP
from headrace.operators.windows.skipped_rows import has_no_time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "Enrich"

AsOf = Literal["event_time", "latest"]
Unmatched = Literal["left", None]
Corrections = Literal["retract", None]


@dataclass(frozen=True, slots=True)
class Enrich(Operator):
    """Add the columns of a table's entry to each row with its key.

        views.transform(op.Enrich(users, on="user_id", as_of="event_time"))

    table        the changes of the table: rows of `read_topic(…, format="changes")`, or any rows, each of which
                 replaces the previous row with the same key. A table beside a stream may be bounded (`spark.read…`):
                 Spark evaluates it again for every micro-batch, and no row waits
    on           the columns to compare: a name, several names, or {name in the rows: name in the table}; in the table,
                 they are the key
    as_of        "event_time": the entry that was valid at the time of the row, in any order of arrival;
                 "latest": the newest entry that has arrived when the row is processed
    columns      the columns of the table to add; by default all except the key, `op`, `before` and columns that start
                 with `_`
    unmatched    "left": a row without an entry is emitted with nulls; None: it is dropped
    wait         how long after its event time a row without an entry waits for one
    keep         how long after the watermark old versions are stored, so that rows up to this late still find them
    corrections  "retract": rows are stored for `keep` after they were emitted. If a change arrives late, and a row was
                 emitted with another entry, the row is retracted and emitted again. The result is a changelog: it has
                 a column `op`, + or -. None: a late change affects only the rows after it
    time         the event-time column of the rows; by default the column that the source declared
    table_time   the column with the time from which an entry is valid; by default the declared one, or `_change_ts`.
                 The latest entries of a bounded table need none
    deleted      an expression that is true for a change that deletes the entry; by default based on `op`
    suffix       appended to the name of a column of the table that the rows also have
    """

    table: DataFrame
    on: On = field(kw_only=True)
    as_of: AsOf = field(default="event_time", kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    unmatched: Unmatched = field(default="left", kw_only=True)
    wait: Duration | None = field(default=None, kw_only=True)
    keep: Duration | None = field(default=None, kw_only=True)
    corrections: Corrections = field(default=None, kw_only=True)
    time: str | None = field(default=None, kw_only=True)
    table_time: str | None = field(default=None, kw_only=True)
    deleted: str | None = field(default=None, kw_only=True)
    suffix: str = field(default="_table", kw_only=True)

    def __post_init__(self) -> None:
        require_frame(self.table, operator=_KIND, field="table")
        _ = self.pairs
        require_one_of(self.as_of, AsOf, operator=_KIND, field="as_of")
        require_one_of(self.unmatched, Unmatched, operator=_KIND, field="unmatched")
        if self.columns is not None:
            object.__setattr__(self, "columns", names(self.columns, operator=_KIND, field="columns"))
        for role in ("time", "table_time"):
            object.__setattr__(self, role, time_name(getattr(self, role), operator=_KIND, field=role))
        if self.deleted is not None:
            hint = "set an expression such as \"status = 'closed'\""
            require_text(self.deleted, operator=_KIND, field="deleted", hint=hint)
        require_text(self.suffix, operator=_KIND, field="suffix", hint='set a suffix such as "_table"')
        if self.is_latest and self.keep is not None:
            raise BadOperator(
                _KIND,
                "keep",
                'is set, but as_of="latest" has no versions, and no row is late for it',
                hint='remove keep=, or set as_of="event_time"',
            )
        self._check_corrections()
        _ = self.rules

    def _check_corrections(self) -> None:
        require_one_of(self.corrections, Corrections, operator=_KIND, field="corrections")
        if self.corrections is None:
            return
        if self.is_latest:
            raise BadOperator(
                _KIND,
                "corrections",
                'is set, but as_of="latest" takes the entry that is there when a row is processed',
                hint='remove corrections=, or set as_of="event_time"',
            )
        if self.keep is None:
            raise BadOperator(
                _KIND,
                "corrections",
                "is set without keep, so no emitted row would be stored",
                hint='set how late a change may be: keep="1 hour"',
            )

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def is_latest(self) -> bool:
        return self.as_of == "latest"

    @property
    def _entries(self) -> TableChanges:
        return TableChanges(
            table=self.table,
            operator=_KIND,
            time=self.table_time,
            time_field="table_time",
            deleted=self.deleted,
            is_latest=self.is_latest,
        )

    @property
    def rules(self) -> EnrichRules:
        wait_us = keep_us = None
        if self.wait is not None:
            wait_us = duration_us(self.wait, operator=_KIND, field="wait")
        if self.keep is not None:
            keep_us = duration_us(self.keep, operator=_KIND, field="keep")
        return EnrichRules(
            is_latest=self.is_latest,
            wait_us=wait_us,
            keep_us=keep_us or 0,
            drops_unmatched=self.unmatched is None,
            corrects=self.corrections is not None,
        )

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type
        from headrace.operators.state.spark import run_step

        if self.is_latest or panes_of(rows) != "retracting":
            # As of the event time, the retraction of a row gets the same entry as the row.
            require_final_rows(rows, operator=_KIND)
        if rows.isStreaming and not self.table.isStreaming:
            return self._from_bounded(rows)
        require_like_sides(rows, self.table, self.pairs, operator=_KIND, field="table")
        keys = [here for here, _ in self.pairs]
        columns = [name for name in rows.columns if name not in keys]
        added = self._added()
        called = names_in_result(rows.columns, added, suffix=self.suffix, operator=_KIND)
        if self.corrections is not None and OP in (*rows.columns, *called.values()):
            raise BadOperator(
                _KIND,
                "corrections",
                f"adds a column {OP!r}, which the rows or the table already have",
                hint=f'rename the column first: rows.withColumnRenamed("{OP}", …)',
            )
        together = self._lookups(rows, columns, added).unionByName(self._changes(rows, columns, added))

        def fields(prefix: str, named: Sequence[str]) -> list[pa.Field]:
            kinds = [together.schema[f"{prefix}{number}"].dataType for number in range(len(named))]
            return [pa.field(name, arrow_type(kind)) for name, kind in zip(named, kinds, strict=True)]

        step = EnrichStep(
            rules=self.rules,
            keys=fields("k", keys),
            columns=fields("l", columns),
            table_columns=fields("r", [called[name] for name in added]),
        )
        lift = SideLift(step.input_schema)
        lag_us = max(lag_of(rows), lag_of(self.table))
        results = run_step(
            together, lift, step, name=_KIND.lower(), kept_for=self._kept_for(step), lag_us=lag_us
        )
        # The metadata of the columns, such as the watermark, is still valid.
        known = [F.col(f"`{each.name}`").alias(each.name, metadata=each.metadata) for each in rows.schema]
        found = [F.col(f"`{called[name]}`") for name in added]
        enriched = results.select(*known, *found, *([OP] if self.corrections else []))
        if step.due_column is None:
            return enriched
        time = event_time_column(rows, self.time, operator=_KIND)
        own_us = max(self.rules.keep_us, self.rules.wait_us or 0)
        emitted = replace(emitted_time(rows, time), lag_us=lag_us + own_us)
        timed = with_emitted_time(enriched, time, rows.schema[time], emitted)
        return as_changelog(timed) if self.corrections else timed

    def _from_bounded(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.joins.bounded_table import joined, versions_of

        require_like_keys(rows, self.table, self.pairs, operator=_KIND)
        for name in ("wait", "corrections", "keep"):
            if getattr(self, name) is not None:
                raise BadOperator(
                    _KIND,
                    name,
                    "is set, but the table is bounded: all its entries are known, and no row is late",
                    hint=f"remove {name}=, or read the table as a stream",
                )
        added = self._added()
        called = names_in_result(rows.columns, added, suffix=self.suffix, operator=_KIND)
        versions = versions_of(
            self.table,
            [there for _, there in self.pairs],
            added,
            since_us=self._entries.since_us(),
            sequence=self._entries.sequence(),
            is_deleted=self._entries.is_deleted(),
        )
        return joined(
            rows,
            versions,
            [here for here, _ in self.pairs],
            [called[name] for name in added],
            time=None if self.is_latest else event_time_column(rows, self.time, operator=_KIND),
            drops_unmatched=self.unmatched is None,
        )

    def _kept_for(self, step: EnrichStep) -> str:
        """A text of everything that the state depends on: if it changes, the stored state is not valid any more."""
        compared = ", ".join(f"{here}={there}" for here, there in self.pairs)
        columns = ", ".join(f"{each.name} {each.type}" for each in step.output_schema)
        waits = self.wait is not None
        corrects = "" if self.corrections is None else f"corrections={self.corrections}; "
        return (
            f"Enrich(on={compared}; as_of={self.as_of}; waits={waits}; {corrects}time={self.time}; "
            f"table_time={self.table_time}; deleted={self.deleted}; {columns})"
        )

    def _added(self) -> list[str]:
        if self.columns is not None:
            require_columns(self.table, self.columns, operator=_KIND, field="columns")
            return list(self.columns)
        excluded = {there for _, there in self.pairs}
        if self._entries.has_op:
            excluded |= {OP, BEFORE}
        return [name for name in self.table.columns if name not in excluded and not name.startswith("_")]

    def _lookups(self, rows: DataFrame, columns: Sequence[str], added: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        keys = [here for here, _ in self.pairs]
        lookup_us = F.lit(0).cast("bigint")
        is_unmatchable = any_null(keys)
        if not self.is_latest or self.wait is not None:
            time = event_time_column(rows, self.time, operator=_KIND)
            require_watermark(rows, time, operator=_KIND)
            lookup_us = time_us(time)
            if not self.is_latest:
                is_unmatchable = is_unmatchable | has_no_time(time)
        lookups = rows.select(
            *hash_columns(rows, keys, operator=_KIND),
            F.coalesce(lookup_us, F.lit(ALWAYS_US)).alias("time"),
            F.lit(0).cast("bigint").alias("seq"),
            F.when(is_unmatchable, code(Side.UNMATCHABLE)).otherwise(code(Side.ROW)).alias("side"),
            F.lit(False).alias("deleted"),
            *(F.col(f"`{name}`").alias(f"k{number}", metadata={}) for number, name in enumerate(keys)),
            *(F.col(f"`{name}`").alias(f"l{number}", metadata={}) for number, name in enumerate(columns)),
            *(_nothing(self.table, name).alias(f"r{number}") for number, name in enumerate(added)),
        )
        return lookups if self.unmatched else lookups.filter(F.col("side") == int(Side.ROW))

    def _changes(self, rows: DataFrame, columns: Sequence[str], added: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        table, keys = self.table, [there for _, there in self.pairs]
        return table.filter(~any_null(keys)).select(
            *hash_columns(table, keys, operator=_KIND),
            self._entries.since_us().alias("time"),
            self._entries.sequence().alias("seq"),
            code(Side.CHANGE).alias("side"),
            self._entries.is_deleted().alias("deleted"),
            *(F.col(f"`{name}`").alias(f"k{number}", metadata={}) for number, name in enumerate(keys)),
            *(_nothing(rows, name).alias(f"l{number}") for number, name in enumerate(columns)),
            *(F.col(f"`{name}`").alias(f"r{number}", metadata={}) for number, name in enumerate(added)),
        )


class SideLift:
    """The lift of rows and changes. Rows that can't match are spread over all buckets, because there may be many."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, _ = hashes_of(rows)
        anywhere = np.arange(rows.num_rows, dtype=np.uint64)
        hashes = np.where(ints_of(rows, "side") == Side.UNMATCHABLE, anywhere, first)
        return pa.table([rows.column(name) for name in self._schema.names], schema=self._schema), hashes


def _nothing(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    return F.lit(None).cast(frame.schema[name].dataType)
