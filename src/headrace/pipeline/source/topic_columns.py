"""A topic read by whole columns, for operators that stand on it (`operators.arrow_stage`).

What `read_topic` has Spark's expressions do for each record, this does for blocks of records in Python: it parses
JSON, counts bad records, and finds their event times. Doubtful records are left to Spark's expressions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.operators.arrow_stage.sources import ReadRows
from headrace.operators.state.ids import Ints, Mask
from headrace.operators.state.table import column_of, ints_of
from headrace.pipeline.source.columns import IS_BAD
from headrace.pipeline.source.json_blocks import JsonBlocks
from headrace.pipeline.source.skew import ONE_OUT_OF
from headrace.pipeline.source.spec import SourceSpec
from headrace.plan_names import RECORD_COLUMNS

VALUE = "value"
OFFSET = "offset"
TIMESTAMP = "timestamp"

KAFKA_TYPES = {
    "_key": pa.binary(),
    "_topic": pa.string(),
    "_partition": pa.int32(),
    "_offset": pa.int64(),
    "_timestamp": pa.timestamp("us", tz="UTC"),
}
"""The columns of a record that can be read by columns. Its headers can't."""


class TopicColumns:
    """A topic, registered for the operators that stand on it."""

    def __init__(
        self,
        raw: DataFrame,
        spec: SourceSpec,
        blocks: JsonBlocks,
        *,
        columns: Mapping[str, Column],
        required: Sequence[str],
        event_time: str | None,
        staged: Callable[[DataFrame], DataFrame],
        is_bad: Column,
        observed: Callable[[DataFrame, str, Column, Column], DataFrame],
        decodes_key: bool,
    ) -> None:
        """`columns` are those of `read_topic`, computed by Spark from a record that is `staged`."""
        self.id = spec.id
        self._raw = raw
        self._spec = spec
        self._blocks = blocks
        self._columns = columns
        self._required = required
        self._event_time = event_time
        self._staged = staged
        self._is_bad = is_bad
        self._observed = observed
        self._decodes_key = decodes_key

    def has(self, needed: Sequence[str]) -> bool:
        return all(name in KAFKA_TYPES or name not in RECORD_COLUMNS for name in needed)

    def records(self, needed: Sequence[str]) -> DataFrame:
        return self._raw.select(*self.reader(needed).raw_schema.names)

    def reader(self, needed: Sequence[str]) -> TopicReader:
        return TopicReader(
            self._spec,
            self._blocks,
            needed,
            required=self._required,
            time=self._event_time,
            decodes_key=self._decodes_key,
        )

    def parsed(self, records: DataFrame, needed: Sequence[str]) -> tuple[DataFrame, Sequence[Column]]:
        names = dict.fromkeys([*needed, *([self._event_time] if self._event_time else [])])
        columns = [self._columns[name].alias(name) for name in names]
        return self._staged(records), [*columns, F.col(OFFSET).alias(OFFSET), self._is_bad.alias(IS_BAD)]

    def observed(self, rows: DataFrame, use: str, *, bad: str, age_ms: str) -> DataFrame:
        return self._observed(rows, use, F.coalesce(F.sum(bad), F.lit(0)), F.col(age_ms))


class TopicReader:
    """Reads blocks of records: the columns `value`, `offset`, `timestamp`, and those that the rows need besides."""

    def __init__(
        self,
        spec: SourceSpec,
        blocks: JsonBlocks,
        needed: Sequence[str],
        *,
        required: Sequence[str],
        time: str | None,
        decodes_key: bool,
    ) -> None:
        self._blocks = blocks
        self._decodes_key = decodes_key and "_key" in needed
        self._needed = list(needed)
        self._required = list(required)
        self._time = time
        self._ahead_us_max = spec.ahead_us_max if spec.event_time is not None else None
        self._rejects_ancient = spec.event_time is not None and spec.watermark is not None
        self._of_record = {name: name.removeprefix("_") for name in (*needed, time) if name in KAFKA_TYPES}
        names = dict.fromkeys([VALUE, OFFSET, TIMESTAMP, *self._of_record.values()])
        types = {VALUE: pa.binary(), **{name.removeprefix("_"): kind for name, kind in KAFKA_TYPES.items()}}
        self.raw_schema = pa.schema([pa.field(name, types[name]) for name in names])

    def read(self, records: pa.Table) -> ReadRows:
        fields, is_doubtful = self._blocks.read(column_of(records, VALUE))
        if self._decodes_key:
            is_odd = odd_texts(column_of(records, "key"))
            fields = fields.filter(pa.array(~is_odd[~is_doubtful])) if is_odd.any() else fields
            is_doubtful = is_doubtful | is_odd
        doubtful = None
        if is_doubtful.any():
            doubtful, records = (records.filter(pa.array(each)) for each in (is_doubtful, ~is_doubtful))
        rows = fields
        for name, raw in self._of_record.items():
            column = column_of(records, raw)
            rows = rows.append_column(
                name, column.cast(pa.string()) if raw == "key" and self._decodes_key else column
            )
        return self._read(rows, self._is_bad(rows, records), ints_of(records, OFFSET), doubtful)

    def read_parsed(self, parsed: pa.Table) -> ReadRows:
        is_bad = np.asarray(column_of(parsed, IS_BAD))
        return self._read(parsed, is_bad, ints_of(parsed, OFFSET), None)

    def _read(self, rows: pa.Table, is_bad: Mask, offsets: Ints, doubtful: pa.Table | None) -> ReadRows:
        if is_bad.any():
            is_good = pa.array(~is_bad)
            rows, offsets = rows.filter(is_good), offsets[~is_bad]
        ages_ms = np.empty(0, dtype=np.int64)
        if self._time is not None:
            sampled_us = ints_of(rows, self._time)[offsets % ONE_OUT_OF == 0]
            ages_ms = (time.time_ns() // 1_000_000) - sampled_us // 1_000
        return ReadRows(
            rows=rows.select(self._needed),
            bad=int(is_bad.sum()),
            ages_ms=ages_ms,
            doubtful=doubtful,
        )

    def _is_bad(self, rows: pa.Table, records: pa.Table) -> Mask:
        is_bad = np.zeros(rows.num_rows, dtype=np.bool_)
        for name in self._required:
            is_bad |= np.asarray(column_of(rows, name).is_null())
        if self._time is None or (self._ahead_us_max is None and not self._rejects_ancient):
            return is_bad
        at = column_of(rows, self._time)
        at_us = np.asarray(at.cast(pa.int64()).fill_null(0))
        if self._ahead_us_max is not None:
            recorded_us = np.asarray(column_of(records, TIMESTAMP).cast(pa.int64()).fill_null(0))
            is_bad |= (recorded_us > 0) & (at_us - recorded_us > self._ahead_us_max)
        if self._rejects_ancient:
            is_bad |= at_us < 0
        return is_bad


def odd_texts(values: pa.Array) -> Mask:
    """A mask of the values that are no UTF-8."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return np.array([value is not None and not _is_text(value) for value in values.to_pylist()])
    return np.zeros(len(values), dtype=np.bool_)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
