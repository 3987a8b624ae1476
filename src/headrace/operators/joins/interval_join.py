"""The join of two streams on the core: both sides become the input of one step (`interval_step.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from headrace.operators.emitted_times import emitted_time, time_metadata
from headrace.operators.joins.interval_step import (
    LEFT,
    NO_TIME_US,
    RIGHT,
    UNMATCHABLE,
    IntervalRules,
    IntervalStep,
    ResultColumn,
    Source,
)
from headrace.operators.joins.sides import Pairs, code, names_in_result, without_watermark
from headrace.operators.operator import any_null, column, time_us
from headrace.operators.state.ids import Hashes
from headrace.operators.state.table import hashes_of, ints_of
from headrace.operators.windows.skipped_rows import has_no_time, is_before_1970, skip_rows
from headrace.plan_names import EVENT_TIME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


_BYTES = "UTF8_BINARY"
"""The collation of texts that are compared by their bytes."""


class StreamSide(Struct, frozen=True, kw_only=True):
    rows: DataFrame
    time: str
    """The column with the event time."""
    instant_us: int = 0
    """What is added to it for the comparison of times: a window does not include its end."""


class IntervalJoin(Struct, frozen=True, kw_only=True):
    """A join of streams. The result has the columns of the left side and, under the names of `called`, columns of the
    right side. A pair of columns with the same name is one column."""

    operator: str
    kept_for: str
    """The settings that the state depends on."""
    left: StreamSide
    right: StreamSide
    pairs: Pairs
    rules: IntervalRules
    called: dict[str, str]

    @property
    def lag_us(self) -> int:
        """How long after the watermark rows arrive."""
        return max(emitted_time(side.rows, side.time).lag_us for side in (self.left, self.right))

    @property
    def emitted_lag_us(self) -> int:
        """How long after the watermark rows are emitted, by the time of the left row."""
        return self.lag_us + self.rules.high_us

    def __call__(self) -> DataFrame:
        """The result, with the metadata of its columns. Its event time is that of the left side."""
        from headrace.operators.state.spark import run_step

        step = self._step()
        together = self._input(LEFT, self.left).unionByName(self._input(RIGHT, self.right))
        sides = (
            f"{which} {', '.join(f'{each.name} {each.dataType.simpleString()}' for each in side.rows.schema)}"
            for which, side in (("left", self.left), ("right", self.right))
        )
        results = run_step(
            together,
            UnionLift(step.input_schema),
            step,
            name=self.operator.lower(),
            kept_for=f"{self.operator}({self.kept_for}) of {'; '.join(sides)}",
            lag_us=self.lag_us,
        )
        return results.select(*self._result_columns())

    def _result_columns(self) -> Iterator[Column]:
        left, right = self.left, self.right
        shared = {here for here, there in self.pairs if here == there}
        emitted = replace(emitted_time(left.rows, left.time), lag_us=self.emitted_lag_us)
        for field in left.rows.schema:
            name = field.name
            metadata = without_watermark(field.metadata)
            if name in shared and self.rules.keeps[RIGHT]:
                metadata = {}
            elif name == left.time:
                metadata = time_metadata(field, emitted) if emitted.lag_us else field.metadata
            yield column(name).alias(name, metadata=metadata)
        for name, called in self.called.items():
            # The result has only one event time, so that later operators can find it.
            field = right.rows.schema[name]
            metadata = {EVENT_TIME: False} if name == right.time else without_watermark(field.metadata)
            yield column(called).alias(called, metadata=metadata)

    def _step(self) -> IntervalStep:
        here, there = [pair[0] for pair in self.pairs], [pair[1] for pair in self.pairs]
        left, right = self._others(LEFT), self._others(RIGHT)
        shared = {one for one, other in self.pairs if one == other}
        results = []
        for name in self.left.rows.columns:
            if name in here:
                of: Source = "either" if name in shared else "left"
                results.append(ResultColumn(name=name, column=f"k{here.index(name)}", of=of))
            else:
                results.append(ResultColumn(name=name, column=f"l{left.index(name)}", of="left"))
        for name, new in self.called.items():
            own = f"k{there.index(name)}" if name in there else f"r{right.index(name)}"
            results.append(ResultColumn(name=new, column=own, of="right"))
        return IntervalStep(
            rules=self.rules,
            keys=_fields(self.left.rows, here),
            left=_fields(self.left.rows, left),
            right=_fields(self.right.rows, right),
            results=results,
        )

    def _input(self, which: int, side: StreamSide) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hash_columns

        keys = [pair[which] for pair in self.pairs]
        is_kept = self.rules.keeps[which]
        reasons = {"before_1970": F.coalesce(is_before_1970(side.time), F.lit(False))}
        if not is_kept:
            reasons["no_time"] = has_no_time(side.time)
        rows = skip_rows(side.rows, reasons, name=self.operator.lower())
        if not is_kept:
            rows = rows.filter(~any_null(keys))
        is_unmatchable = any_null(keys) | has_no_time(side.time) if is_kept else F.lit(False)
        # The sum of 64-bit numbers may fail, so it is only there if it is needed.
        at_us = time_us(side.time) + side.instant_us if side.instant_us else time_us(side.time)
        at_us = F.when(has_no_time(side.time), NO_TIME_US).otherwise(at_us)
        return rows.select(
            *hash_columns(rows, keys, operator=self.operator),
            at_us.alias("time"),
            F.when(is_unmatchable, code(UNMATCHABLE + which)).otherwise(code(which)).alias("side"),
            *(column(name).alias(f"k{number}", metadata={}) for number, name in enumerate(keys)),
            *self._columns_of("l", self.left, LEFT, which),
            *self._columns_of("r", self.right, RIGHT, which),
        )

    def _others(self, which: int) -> list[str]:
        """The columns of a side in the result, except those that are compared."""
        keys = [pair[which] for pair in self.pairs]
        names = self.left.rows.columns if which == LEFT else self.called
        return [name for name in names if name not in keys]

    def _columns_of(self, prefix: str, side: StreamSide, owner: int, which: int) -> list[Column]:
        """The columns of a side, which are null in rows of the other one."""
        from pyspark.sql import functions as F

        return [
            column(name).alias(f"{prefix}{number}", metadata={})
            if owner == which
            else F.lit(None).cast(side.rows.schema[name].dataType).alias(f"{prefix}{number}")
            for number, name in enumerate(self._others(owner))
        ]


class UnionLift:
    """The lift of both sides. Rows that can't match are spread over all buckets, because there may be many."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        hashes, _ = hashes_of(rows)
        is_unmatchable = ints_of(rows, "side") >= UNMATCHABLE
        if is_unmatchable.any():
            hashes = np.where(is_unmatchable, np.arange(rows.num_rows, dtype=np.uint64), hashes)
        return pa.table([rows.column(name) for name in self._schema.names], schema=self._schema), hashes


def names_of_right(
    left: DataFrame, right: DataFrame, pairs: Pairs, *, suffix: str, operator: str
) -> dict[str, str]:
    """The names in the result of the right side's columns, except those that are one column with the left side's."""
    shared = {here for here, there in pairs if here == there}
    added = [name for name in right.columns if name not in shared]
    return names_in_result(left.columns, added, suffix=suffix, operator=operator)


def are_in_core(rows: DataFrame, other: DataFrame, pairs: Pairs) -> bool:
    """Whether the core has all types of these rows. It compares texts by their bytes."""
    from headrace.operators.state.keys import is_in_core

    keys = [rows.schema[here].dataType for here, _ in pairs]
    is_binary = all(getattr(each, "collation", _BYTES) == _BYTES for each in keys)
    return is_binary and all(is_in_core(each.dataType) for each in (*rows.schema, *other.schema))


def _fields(rows: DataFrame, names: Sequence[str]) -> list[pa.Field]:
    from headrace.operators.state.keys import arrow_type

    return [pa.field(name, arrow_type(rows.schema[name].dataType)) for name in names]
