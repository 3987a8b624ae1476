"""Rows of a stream with the entry of a table that they name, where the table comes as the stream of its changes.

Both go into one step (`enrich_step.py`), which keeps the table's entries in the state of the keys' buckets.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from headrace.operators.joins.enrich_step import ALWAYS_US, EnrichRules, EnrichStep, Side, hashes_of
from headrace.operators.joins.sides import (
    On,
    Pairs,
    names_in_result,
    read_on,
    require_frame,
    require_like_sides,
)
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    duration_us,
    event_time_column,
    names,
    require_columns,
    require_one_of,
    require_watermark,
    time_us,
)
from headrace.operators.state.ids import Hashes
from headrace.operators.tables.changelog import OFFSET
from headrace.operators.tables.columns import BEFORE, DELETIONS
from headrace.operators.tables.weighted import OP
from headrace.operators.windows.panes import ints_of
from headrace.operators.windows.skipped_rows import has_no_time
from headrace.plan_names import CHANGE_TIME, EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KIND = "Enrich"

AsOf = Literal["event_time", "latest"]
Unmatched = Literal["left", None]

"""Of `read_topic(format="changes")`: when it happened."""

_HASH_BITS_LEFT_OUT = 2
"""An order by hash, below that of what asserts: 62 bits of it."""


@dataclass(frozen=True, slots=True)
class Enrich(Operator):
    """Each row with the columns of the table's entry that has its key.

        views.transform(op.Enrich(users, on="user_id", as_of="event_time"))

    table        the changes of the table: rows of `read_topic(…, format="changes")`, or rows of which each takes the
                 place of the one before it that has the same key
    on           the columns to compare: a name, several, or {name here: name in the table}, where they are the key
    as_of        "event_time": the entry as it was at the time of the row, whichever of the two arrived first;
                 "latest": the newest entry that has arrived when the row is worked on
    columns      which of the table's to add; by default all but the key, `op`, `before` and those that begin with `_`
    unmatched    "left": a row without an entry comes with nulls; None: it is left out
    wait         how long, from the row's time on, a row without an entry waits for one to arrive
    keep         how long behind the watermark versions are kept, so that rows as late as that are still answered
    time         the column with the event time of the rows; by default the one that the source declared
    table_time   the column that says since when an entry is valid; by default the declared one, or `_change_ts`
    deleted      an expression that says of a change that it takes the entry away; by default what `op` says
    suffix       behind the name of a column of the table that the rows have too
    """

    table: DataFrame
    on: On = field(kw_only=True)
    as_of: AsOf = field(default="event_time", kw_only=True)
    columns: Sequence[str] | None = field(default=None, kw_only=True)
    unmatched: Unmatched = field(default="left", kw_only=True)
    wait: Duration | None = field(default=None, kw_only=True)
    keep: Duration | None = field(default=None, kw_only=True)
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
        if not self.suffix:
            raise BadOperator(_KIND, "suffix", "is empty", hint='such as "_table"')
        if self.is_latest and self.keep is not None:
            raise BadOperator(
                _KIND,
                "keep",
                "was given, but of the latest entries there are no versions, and no row is too late for them",
                hint='leave it out, or as_of="event_time"',
            )
        _ = self.rules

    @property
    def pairs(self) -> Pairs:
        return read_on(self.on, operator=_KIND)

    @property
    def is_latest(self) -> bool:
        return self.as_of == "latest"

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
        )

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type
        from headrace.operators.state.spark import run_step

        require_like_sides(rows, self.table, self.pairs, operator=_KIND, field="table")
        keys = [here for here, _ in self.pairs]
        columns = [name for name in rows.columns if name not in keys]
        added = self._added()
        called = names_in_result(rows.columns, added, suffix=self.suffix, operator=_KIND)
        together = self._asking(rows, columns, added).unionByName(self._changes(rows, columns, added))

        def fields(prefix: str, said: Sequence[str]) -> list[pa.Field]:
            kinds = [together.schema[f"{prefix}{number}"].dataType for number in range(len(said))]
            return [pa.field(name, arrow_type(kind)) for name, kind in zip(said, kinds, strict=True)]

        step = EnrichStep(
            rules=self.rules,
            keys=fields("k", keys),
            columns=fields("l", columns),
            table_columns=fields("r", [called[name] for name in added]),
        )
        lift = SideLift(step.input_schema)
        results = run_step(together, lift, step, name=_KIND.lower(), kept_for=self._kept_for(step))
        # What is known of the columns, such as which one has the watermark, is still true.
        known = [F.col(f"`{each.name}`").alias(each.name, metadata=each.metadata) for each in rows.schema]
        return results.select(*known, *(F.col(f"`{called[name]}`") for name in added))

    def _kept_for(self, step: EnrichStep) -> str:
        """All that the state depends on: with anything else in here, what was kept means something else."""
        compared = ", ".join(f"{here}={there}" for here, there in self.pairs)
        columns = ", ".join(f"{each.name} {each.type}" for each in step.output_schema)
        waits = self.wait is not None
        return (
            f"Enrich(on={compared}; as_of={self.as_of}; waits={waits}; time={self.time}; "
            f"table_time={self.table_time}; deleted={self.deleted}; {columns})"
        )

    def _added(self) -> list[str]:
        if self.columns is not None:
            require_columns(self.table, self.columns, operator=_KIND, field="columns")
            return list(self.columns)
        left_out = {there for _, there in self.pairs}
        if self._has_op:
            left_out |= {OP, BEFORE}
        return [name for name in self.table.columns if name not in left_out and not name.startswith("_")]

    @property
    def _has_op(self) -> bool:
        """A column of that name that is no text is the user's own."""
        from pyspark.sql.types import StringType

        return OP in self.table.columns and isinstance(self.table.schema[OP].dataType, StringType)

    def _asking(self, rows: DataFrame, columns: Sequence[str], added: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        keys = [here for here, _ in self.pairs]
        asked_us = F.lit(0).cast("bigint")
        is_unanswerable = _any(F.col(f"`{name}`").isNull() for name in keys)
        if not self.is_latest or self.wait is not None:
            time = event_time_column(rows, self.time, operator=_KIND)
            require_watermark(rows, time, operator=_KIND)
            asked_us = time_us(time)
            if not self.is_latest:
                is_unanswerable = is_unanswerable | has_no_time(time)
        asking = rows.select(
            *hash_columns(rows, keys, operator=_KIND),
            F.coalesce(asked_us, F.lit(ALWAYS_US)).alias("time"),
            F.lit(0).cast("bigint").alias("seq"),
            F.when(is_unanswerable, int(Side.UNANSWERABLE))
            .otherwise(int(Side.ROW))
            .cast("byte")
            .alias("side"),
            F.lit(False).alias("deleted"),
            *(F.col(f"`{name}`").alias(f"k{number}", metadata={}) for number, name in enumerate(keys)),
            *(F.col(f"`{name}`").alias(f"l{number}", metadata={}) for number, name in enumerate(columns)),
            *(_nothing(self.table, name).alias(f"r{number}") for number, name in enumerate(added)),
        )
        return asking if self.unmatched else asking.filter(F.col("side") == int(Side.ROW))

    def _changes(self, rows: DataFrame, columns: Sequence[str], added: Sequence[str]) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        table, keys = self.table, [there for _, there in self.pairs]
        is_deleted = self._is_deleted()
        return table.filter(~_any(F.col(f"`{name}`").isNull() for name in keys)).select(
            *hash_columns(table, keys, operator=_KIND),
            F.coalesce(time_us(self._table_time()), F.lit(ALWAYS_US)).alias("time"),
            self._sequence(is_deleted).alias("seq"),
            F.lit(int(Side.CHANGE)).cast("byte").alias("side"),
            is_deleted.alias("deleted"),
            *(F.col(f"`{name}`").alias(f"k{number}", metadata={}) for number, name in enumerate(keys)),
            *(_nothing(rows, name).alias(f"l{number}") for number, name in enumerate(columns)),
            *(F.col(f"`{name}`").alias(f"r{number}", metadata={}) for number, name in enumerate(added)),
        )

    def _table_time(self) -> str:
        said, schema = self.table_time, self.table.schema
        is_declared = any(
            each.metadata.get(EVENT_TIME) or WATERMARK_DELAY in each.metadata for each in schema.fields
        )
        if said is None and not is_declared and CHANGE_TIME in schema.names:
            said = CHANGE_TIME
        return event_time_column(self.table, said, operator=_KIND, field="table_time")

    def _is_deleted(self) -> Column:
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F

        if self.deleted is None:
            found = F.col(OP).isin(*DELETIONS) if self._has_op else F.lit(False)
            return F.coalesce(found, F.lit(False))
        found = F.coalesce(F.expr(self.deleted), F.lit(False))
        try:
            kind = self.table.select(found.alias("deleted")).schema[0].dataType.simpleString()
        except AnalysisException as error:
            raise BadOperator(
                _KIND,
                "deleted",
                f"is {self.deleted!r}, which Spark can't work out",
                hint=str(error).splitlines()[0][:300],
            ) from error
        if kind != "boolean":
            raise BadOperator(
                _KIND, "deleted", f"is {self.deleted!r}, which is {kind}", hint='such as "name is null"'
            )
        return found

    def _sequence(self, is_deleted: Column) -> Column:
        """The order of changes of one key and one time: that of the topic, or else one that is the same every time."""
        from pyspark.sql import functions as F
        from pyspark.sql.types import LongType

        schema = self.table.schema
        if OFFSET in schema.names and isinstance(schema[OFFSET].dataType, LongType):
            return F.coalesce(F.col(OFFSET), F.lit(0).cast("bigint"))
        # Spark does not hash maps, wherever they are.
        hashed = [F.col(f"`{each.name}`") for each in schema if "map<" not in each.dataType.simpleString()]
        # What asserts comes behind what takes away: an update may come as both.
        asserts = F.when(is_deleted, F.lit(0)).otherwise(F.lit(2**62)).cast("bigint")
        return F.shiftrightunsigned(F.xxhash64(*hashed), _HASH_BITS_LEFT_OUT) + asserts


class SideLift:
    """Rows as they are. Those that match nothing go anywhere, as there may be many."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, _ = hashes_of(rows)
        anywhere = np.arange(rows.num_rows, dtype=np.uint64)
        hashes = np.where(ints_of(rows, "side") == Side.UNANSWERABLE, anywhere, first)
        return pa.table([rows.column(name) for name in self._schema.names], schema=self._schema), hashes


def _nothing(frame: DataFrame, name: str) -> Column:
    from pyspark.sql import functions as F

    return F.lit(None).cast(frame.schema[name].dataType)


def _any(conditions: Iterable[Column]) -> Column:
    return functools.reduce(operator.or_, conditions)
