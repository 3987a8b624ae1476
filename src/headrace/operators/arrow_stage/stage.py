"""The stage from the records of a source to packed rows: parsed, filtered, projected and lifted by whole columns.

A record of which the reader by columns is not certain is parsed by Spark: the stage consists of two Python functions,
and Spark parses between them what the first one leaves. So a batch has the rows, the bad records and the metrics that
it has if Spark parses everything.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from functools import cached_property, reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.operators.arrow_stage.plan import StagePlan, find_stage
from headrace.operators.arrow_stage.sources import ColumnReader, ReadRows, find
from headrace.operators.late_rows import UTC_TIME
from headrace.operators.spark_plans import union_sides
from headrace.operators.state.gathering import gathered, with_types
from headrace.operators.state.ids import Ints
from headrace.operators.state.packing_by_columns import Packer
from headrace.plan_names import metric_of_use

BLOCK_ROWS_MAX = 50_000
"""Records that are parsed together: enough that a call costs little for each, few enough for the processor's cache."""

Columns = Mapping[str, pa.Array]

_TIME = "_time"
_BAD = "_bad"
_COUNTS = "_counts"
_AGES = "_ages_ms"
_AGE = "_age_ms"
_RECORD = "_record"

_REPORT = [
    pa.field(_TIME, UTC_TIME),
    pa.field(_BAD, pa.int64()),
    pa.field(_COUNTS, pa.list_(pa.int64())),
]


def stage_rows(rows: DataFrame, packer: Packer) -> DataFrame | None:
    """The packed rows, with the watermarks and the metrics of the sources and of the steps above them; None if Spark
    has to evaluate the rows. Each side of a union has a stage of its own."""
    sides = union_sides(rows)
    staged = [_stage(side, packer) for side in sides]
    if not any(staged):
        return None
    by_spark = from_arrow_schema(packer.packed)
    return reduce(
        DataFrame.union,
        (stage or side.mapInArrow(packer, by_spark) for stage, side in zip(staged, sides, strict=True)),
    )


def _stage(rows: DataFrame, packer: Packer) -> DataFrame | None:
    plan = find_stage(rows)
    source = find(plan.source) if plan is not None else None
    if plan is None or source is None or not source.has(plan.columns_needed) or plan.can_fail:
        return None
    needed = plan.columns_needed
    # Another operator may read the same source by columns. Two metrics of one name would have to be the same.
    use = uuid.uuid4().hex[:8]
    blocks = Blocks(source.reader(needed), plan, packer)
    first = source.records(needed).mapInArrow(blocks.first, from_arrow_schema(blocks.first_schema))
    passed = [F.col(name) for name in blocks.first_schema.names if name != _RECORD]
    parsed, columns = source.parsed(first.select(*passed, _RECORD, f"{_RECORD}.*"), needed)
    record = F.when(F.col(_RECORD).isNotNull(), F.struct(*columns)).alias(_RECORD)
    packed_rows = parsed.select(*passed, record).mapInArrow(
        blocks.second, from_arrow_schema(blocks.second_schema)
    )
    packed_rows = source.observed(packed_rows, use, bad=_BAD, age_ms=_AGE)
    place = 0
    for metric, names in plan.metrics.items():
        sums = [
            F.coalesce(F.sum(F.element_at(_COUNTS, place + n)), F.lit(0)) for n in range(1, len(names) + 1)
        ]
        place += len(names)
        packed_rows = packed_rows.observe(
            metric_of_use(metric, use), *(each.alias(name) for each, name in zip(sums, names, strict=True))
        )
    is_packed = F.col(packer.packed.names[0]).isNotNull()
    if plan.watermark is not None:
        delay = f"{plan.watermark.delay_ms} milliseconds"
        packed_rows = packed_rows.where(F.col(_TIME).isNotNull()).withWatermark(_TIME, delay)
        # Spark would move a condition without the time below the watermark, and no other row would move it.
        is_packed = F.coalesce(F.col(_TIME).isNotNull() & is_packed, F.lit(False))
    return packed_rows.where(is_packed).select(*packer.packed.names)


class Blocks:
    """The Python functions of a stage."""

    def __init__(self, reader: ColumnReader, plan: StagePlan, packer: Packer) -> None:
        self._reader = reader
        self._plan = plan
        self._packer = packer

    @cached_property
    def first_schema(self) -> pa.Schema:
        record = pa.field(_RECORD, pa.struct(list(self._reader.raw_schema)))
        return pa.schema([*self._packer.packed, *_REPORT, pa.field(_AGES, pa.list_(pa.int64())), record])

    @cached_property
    def second_schema(self) -> pa.Schema:
        return pa.schema([*self._packer.packed, *_REPORT, pa.field(_AGE, pa.int64())])

    def first(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read what can be read by columns; the other records are returned as they are."""
        work = _Work(self._plan, self._packer)
        for records in gathered(batches, BLOCK_ROWS_MAX):
            read = self._reader.read(with_types(records, self._reader.raw_schema))
            if read.doubtful is not None:
                doubtful = read.doubtful.combine_chunks().to_struct_array().combine_chunks()
                yield _filled(self.first_schema, {_RECORD: doubtful})
            yield from (_filled(self.first_schema, each) for each in work.add(read))
        yield from (_filled(self.first_schema, each) for each in work.rest())
        if work.has_report:
            ages = pa.array([work.ages_ms()], pa.list_(pa.int64()))
            yield _filled(self.first_schema, {**work.report(), _AGES: ages})

    def second(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pass on what the first function has packed, and pack the rows that Spark has parsed."""
        work = _Work(self._plan, self._packer)
        for batch in batches:
            records = batch.column(_RECORD)
            is_passed = np.asarray(records.is_null())
            passed = batch.filter(pa.array(is_passed)) if not is_passed.all() else batch
            yield from self._passed(passed)
            if not is_passed.all():
                parsed = pa.Table.from_batches(
                    [pa.RecordBatch.from_struct_array(records.filter(pa.array(~is_passed)))]
                )
                read = self._reader.read_parsed(parsed)
                yield from (_filled(self.second_schema, each) for each in work.add(read))
        yield from (_filled(self.second_schema, each) for each in work.rest())
        if work.has_report:
            yield _filled(self.second_schema, work.report())
            yield from self._with_ages(work.ages_ms())

    def _passed(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.num_rows:
            yield _filled(self.second_schema, dict(zip(batch.schema.names, batch.columns, strict=True)))
            yield from self._with_ages(np.asarray(batch.column(_AGES).flatten()))

    def _with_ages(self, ages_ms: Ints) -> Iterator[pa.RecordBatch]:
        if len(ages_ms):
            yield _filled(self.second_schema, {_AGE: pa.array(ages_ms)})


class _Work:
    """The rows of a task that are not packed yet, and what is reported of all its records."""

    def __init__(self, plan: StagePlan, packer: Packer) -> None:
        self._plan = plan
        self._packer = packer
        self._waiting: list[pa.Table] = []
        self._count = 0
        self._bad = 0
        self._counts: dict[str, dict[str, int]] = {}
        self._newest_us: int | None = None
        self._ages_ms: list[Ints] = []
        self.has_report = False

    def add(self, read: ReadRows) -> Iterator[Columns]:
        self.has_report = True
        self._bad += read.bad
        self._ages_ms.append(read.ages_ms)
        applied = self._plan.apply(read.rows)
        for metric, counts in applied.counts.items():
            before = self._counts.get(metric, {})
            self._counts[metric] = {name: count + before.get(name, 0) for name, count in counts.items()}
        if applied.newest_us is not None:
            self._newest_us = max(applied.newest_us, self._newest_us or 0)
        if applied.table.num_rows:
            self._waiting.append(applied.table)
            self._count += applied.table.num_rows
        if self._count >= self._packer.rows_max:
            yield from self.rest()

    def rest(self) -> Iterator[Columns]:
        if not self._waiting:
            return
        batch = self._packer.pack(pa.concat_tables(self._waiting).combine_chunks())
        self._waiting, self._count = [], 0
        if batch is not None:
            packed = dict(zip(batch.schema.names, batch.columns, strict=True))
            yield {**packed, _TIME: pa.repeat(_time(self._newest_us or 0), batch.num_rows)}

    def ages_ms(self) -> Ints:
        return np.concatenate(self._ages_ms)

    def report(self) -> Columns:
        """One row. Its time, the newest of all, moves the watermark."""
        counts = [count for of_metric in self._counts.values() for count in of_metric.values()]
        return {
            _TIME: pa.array([_time(self._newest_us)]),
            _BAD: pa.array([self._bad]),
            _COUNTS: pa.array([counts], pa.list_(pa.int64())),
        }


def _time(at_us: int | None) -> pa.Scalar:
    return pa.scalar(at_us, pa.int64()).cast(UTC_TIME)


def _filled(schema: pa.Schema, columns: Columns) -> pa.RecordBatch:
    """A batch with these columns, and nulls in the others."""
    count = len(next(iter(columns.values())))
    arrays = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(count, field.type)
        for field in schema
    ]
    return pa.record_batch(arrays, schema=schema)
