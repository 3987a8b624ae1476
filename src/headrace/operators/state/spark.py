"""The core on Spark: it partitions rows into buckets, runs a step for each bucket, and emits results as rows.

On a stream, a bucket is a grouping key of `transformWithState`; its manifest is a value, its runs are the entries of a
map. On bounded rows the same step gets all rows of a bucket, and then the final watermark.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from headrace.operators.late_alarm import listen_for_late_rows
from headrace.operators.late_rows import BATCH_PROPERTY, LateRowsTo
from headrace.operators.operator import BadOperator
from headrace.operators.state import cache
from headrace.operators.state.bucket import MILLISECOND_US, work
from headrace.operators.state.copies import keep_copy
from headrace.operators.state.gathering import gathered, with_types
from headrace.operators.state.hot_keys import key_counts
from headrace.operators.state.packing import (
    BUCKET,
    CLOCK_BUCKET,
    PACKED_SCHEMA,
    PAYLOAD,
    bucket_keys,
    decode_rows,
    encode_output,
    pack,
)
from headrace.operators.state.packing_by_columns import packed_by_columns
from headrace.operators.state.run import COLUMN
from headrace.operators.state.step import BEGINNING_US, END_US, Lift, Step, StepResult, StepTime, advance
from headrace.operators.state.table import StateTable
from headrace.plan_names import (
    ALARM_ABOVE,
    CORRECTED,
    KEY_COUNTS,
    KEYS_METRIC,
    LATE,
    LATE_METRIC,
    STATE_COPIES_FOLDER,
    WINDOW_ROWS,
    WORK_METRIC,
    WORK_TIMES,
    OperatorMark,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
        ValueState,
    )

QUERY_PROPERTY = "sql.streaming.queryId"
"""A local property that Spark sets in all jobs of a query."""

BUCKETS_SETTING = "spark.headrace.state.buckets"
BUCKETS = 32
"""The default number of buckets, which bounds the parallelism. More buckets cost more calls in every batch. The number
can't change during the life of a checkpoint."""

CACHE_SETTING = "spark.headrace.state.cache_mb"
"""How much state each Python worker caches; `cache.bytes_max_by_default` if not set."""

COLUMNS_SETTING = "spark.headrace.source.columns"
"""`false` has Spark parse the records of a topic. By default an operator that stands on it parses them by columns."""

LIFT_ROWS_MAX = 500_000
"""Rows that a task buffers in memory before it merges and packs them. More rows make fewer payloads."""

COUNTS = ("_rows_in", "_corrected_rows", "_late_rows")
"""The numbers of input rows, corrections and late rows: null, except in a row that has only these."""

_KEYS = "_keys"
"""The most frequent keys of the rows that are packed together: null, except in the first of their payloads."""

_WORK = "_work"
"""The bucket and the microseconds of work on it: null, except in the last row of a bucket."""

_PACKED = pa.schema([*PACKED_SCHEMA, pa.field(_KEYS, pa.string())])
_RESULT = StructType(
    [
        StructField(PAYLOAD, BinaryType()),
        *(StructField(name, LongType()) for name in COUNTS),
        StructField(_WORK, StringType()),
    ]
)


def run_step(
    rows: DataFrame,
    lift: Lift,
    step: Step,
    *,
    name: str,
    kept_for: str,
    late_topic: str | None = None,
    is_late_topic_required: bool = True,
    alarm_above: float | None = None,
    lag_us: int = 0,
) -> DataFrame:
    """The output of the step for these rows, whose columns are those that `lift` expects.

    Late rows are counted as `late` in the observed metrics of the query, under `headrace.late:NAME`. Those that the
    step returns go to `late_topic`; a stream without a Job fails, or logs them if the topic is not required.
    `kept_for` describes everything that the state depends on: a state that was written for another description is
    rejected. `lag_us` is how long after the watermark rows arrive.
    """
    buckets = bucket_count(rows.sparkSession)
    keys = [each.name for each in step.state_schema if COLUMN in (each.metadata or {})]
    keys = keys if rows.isStreaming and set(keys) <= set(rows.columns) else []
    packed = _packed(rows, _Packer(lift, buckets, to_arrow_schema(rows.schema, timezone="UTC"), keys))
    if not rows.isStreaming:
        return packed.groupBy(BUCKET).applyInArrow(_bounded(step), from_arrow_schema(step.output_schema))
    owner = f"{name} {hashlib.sha256(kept_for.encode()).hexdigest()[:8]}"
    late_to = (
        LateRowsTo(
            topic=late_topic, operator=name, owner=owner.split()[1], is_required=is_late_topic_required
        )
        if late_topic is not None
        else None
    )
    identity = f"{name}:{uuid.uuid4().hex[:8]}"
    if keys:
        packed = packed.observe(f"{KEYS_METRIC}{identity}", F.collect_list(_KEYS).alias(KEY_COUNTS))
    mark = OperatorMark(operator=name, kept_for=kept_for, owner=owner, late_topic=late_topic)
    # An alias changes nothing for Spark. It is the only place in a plan where an operator can describe itself.
    marked = packed.select(BUCKET, PAYLOAD).alias(mark.to_alias())
    results = marked.groupBy(BUCKET).transformWithState(
        BucketProcessor(
            step,
            buckets,
            owner=owner,
            late_to=late_to,
            cache_mb=_setting(rows.sparkSession, CACHE_SETTING),
            lag_ms=-(-lag_us // MILLISECOND_US),
        ),
        _RESULT,
        "append",
        "eventTime" if step.due_column else "none",
    )
    if keys:
        results = results.observe(f"{WORK_METRIC}{identity}", F.collect_list(_WORK).alias(WORK_TIMES))
    sums = [
        F.coalesce(F.sum(column), F.lit(0)).alias(name)
        for column, name in zip(COUNTS, (WINDOW_ROWS, CORRECTED, LATE), strict=True)
    ]
    alarm = F.max(F.lit(alarm_above).cast("double")).alias(ALARM_ABOVE)
    if alarm_above is not None:
        listen_for_late_rows(rows.sparkSession)
    results = results.observe(f"{LATE_METRIC}{identity}", *sums, alarm)
    return results.select(PAYLOAD).mapInArrow(
        functools.partial(_unpacked, step.output_schema), from_arrow_schema(step.output_schema)
    )


def bucket_count(spark: SparkSession) -> int:
    return _setting(spark, BUCKETS_SETTING) or BUCKETS


def _setting(spark: SparkSession, name: str) -> int | None:
    text = spark.conf.get(name, None)
    if text is None:
        return None
    if not text.isdecimal() or int(text) == 0:
        raise BadOperator(
            "session", name, f"is {text!r}, and must be a positive integer", hint='such as "64"'
        )
    return int(text)


class _Packer:
    """Lifts rows, and packs them by buckets. `keys` are the columns of the key, if the rows of each are counted."""

    packed = _PACKED
    rows_max = LIFT_ROWS_MAX

    def __init__(self, lift: Lift, buckets: int, schema: pa.Schema, keys: list[str]) -> None:
        self._lift = lift
        self._buckets = buckets
        self._schema = schema
        self._keys = keys

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in gathered(batches, self.rows_max):
            packed = self.pack(table)
            if packed is not None:
                yield packed

    def pack(self, table: pa.Table) -> pa.RecordBatch | None:
        _freeze_modules()
        typed = with_types(table, self._schema)
        rows, hashes = self._lift(typed)
        if not rows.num_rows:
            return None
        payloads = pack(rows, hashes, self._buckets)
        counts = [key_counts(typed, self._keys, self._buckets).decode()] if self._keys else []
        counted = pa.array([*counts, *[None] * (payloads.num_rows - len(counts))], pa.string())
        return payloads.append_column(_KEYS, counted)


def _packed(rows: DataFrame, packer: _Packer) -> DataFrame:
    """The rows by buckets. The records of a topic may be read by columns in the same step."""
    if rows.isStreaming and rows.sparkSession.conf.get(COLUMNS_SETTING, "true") != "false":
        packed = packed_by_columns(rows, packer)
        if packed is not None:
            return packed
    return rows.mapInArrow(packer, from_arrow_schema(packer.packed))


@functools.cache
def _freeze_modules() -> None:
    """Spark collects garbage after each task of a worker, which takes a tenth of a second with all the modules that
    operators import. They are no garbage."""
    gc.freeze()


def _unpacked(schema: pa.Schema, results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The output rows. A row without a payload has only counts."""
    for batch in results:
        for payload in batch.column(0).drop_null():
            yield from decode_rows([payload.as_py()], schema).to_batches()


def _bounded(step: Step) -> Callable[[pa.Table], pa.Table]:
    def stepped(packed: pa.Table) -> pa.Table:
        rows = decode_rows(packed.column(PAYLOAD).to_pylist(), step.input_schema)
        during = StepTime(late_us=BEGINNING_US, watermark_us=BEGINNING_US, now_us=0)
        table = step.table_of()
        first = advance(step, table, rows, during)
        nothing = step.input_schema.empty_table()
        last = advance(
            step, first.table, nothing, StepTime(late_us=BEGINNING_US, watermark_us=END_US, now_us=0)
        )
        return pa.concat_tables([first.result.output, last.result.output])

    return stepped


class BucketProcessor(StatefulProcessor):
    """A bucket is a key of Spark's. Input rows are payloads; output rows are payloads and the counts of late rows."""

    def __init__(
        self,
        step: Step,
        buckets: int,
        *,
        owner: str = "",
        late_to: LateRowsTo | None = None,
        cache_mb: int | None = None,
        lag_ms: int = 0,
    ) -> None:
        self._step = step
        self._buckets = buckets
        self._owner = owner
        self._late_to = late_to
        self._cache_mb = cache_mb
        self._lag_ms = lag_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        _freeze_modules()
        text = StructType([StructField("text", StringType())])
        content = StructType([StructField("content", BinaryType())])
        kept_bytes = self._cache_mb * 1_000_000 if self._cache_mb else cache.bytes_max_by_default()
        cache.of_this_process.bytes_max = kept_bytes
        self._handle = handle
        self._manifest = handle.getValueState("manifest", text)
        self._runs = handle.getMapState("runs", text, content)
        self._clock = PartitionClock(handle, self._manifest) if self._step.due_column else None

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        incoming = decode_rows([bytes(row[1]) for row in rows], self._step.input_schema)
        if self._late_to is not None and self._late_to.is_required:
            self._late_to.require_place()
        return self._work(key, incoming, timerValues, fired_ms=None)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        nothing = self._step.input_schema.empty_table()
        fired_ms = expiredTimerInfo.getExpiryTimeInMs()
        return self._work(key, nothing, timerValues, fired_ms=without_lag(fired_ms, self._lag_ms))

    def close(self) -> None:
        if self._clock is not None:
            self._clock.keep()

    def _work(self, key: Any, rows: pa.Table, times: TimerValues, *, fired_ms: int | None) -> Iterator[Row]:
        time = StepTime(
            late_us=watermark_us(self._clock.previous_ms(key) if self._clock else 0, self._lag_ms),
            watermark_us=watermark_us(times.getCurrentWatermarkInMs(), self._lag_ms),
            now_us=times.getCurrentProcessingTimeInMs() * 1_000,
        )
        began_s = perf_counter()
        advanced = work(
            self._step,
            _SparkStore(self._handle, self._manifest, self._runs, self._lag_ms),
            rows,
            time,
            buckets=self._buckets,
            cache=cache.of_this_process,
            bucket=(_query_id(), self._owner, key[0]),
            fired_ms=fired_ms,
            owner=self._owner,
        )
        self._copy(key[0], advanced.table)
        result = advanced.result
        if self._late_to is not None and result.late is not None:
            self._late_to.write(result.late, key[0])
        number = bucket_keys(self._buckets).index(key[0])
        return _results(result, f"{number}:{round((perf_counter() - began_s) * 1e6)}")

    def _copy(self, bucket: int, table: StateTable) -> None:
        """For a job that answers questions from its state."""
        context = TaskContext.get()
        folder = context.getLocalProperty(STATE_COPIES_FOLDER) if context else None
        batch = context.getLocalProperty(BATCH_PROPERTY) if context else None
        if folder and batch:
            keep_copy(
                Path(folder),
                owner=self._owner,
                bucket=bucket,
                batch_id=int(batch),
                runs=table.runs,
                expired_us=table.expired_us,
            )


def watermark_us(spark_ms: int, lag_ms: int) -> int:
    """The operator's watermark. Spark's first one is the epoch, which means that none is set."""
    return (spark_ms - lag_ms) * MILLISECOND_US if spark_ms > 0 else BEGINNING_US


def with_lag(timer_ms: int, lag_ms: int) -> int:
    """The timer for Spark's watermark. Timers for the next batch are negative, and have no lag."""
    return timer_ms + lag_ms if timer_ms > 0 else timer_ms


def without_lag(timer_ms: int, lag_ms: int) -> int:
    return timer_ms - lag_ms if timer_ms > 0 else timer_ms


class PartitionClock:
    """The watermark of the previous batch, which Spark does not pass to Python: each partition stores its own.

    Every partition runs in every batch, with or without rows, so it is that of the batch before.
    """

    def __init__(self, handle: StatefulProcessorHandle, kept: ValueState) -> None:
        self._client = handle._statefulProcessorApiClient
        self._kept = kept
        self._previous_ms: int | None = None

    def previous_ms(self, key: Any) -> int:
        """Called while Spark has set this key."""
        if self._previous_ms is None:
            self._previous_ms = self._read()
            self._client.set_implicit_key(key)
        return self._previous_ms

    def keep(self) -> None:
        """Store the watermark of this batch; on the driver, which only learns the state's schema, there is none."""
        if self._client.handle_state is StatefulProcessorHandleState.PRE_INIT:
            return
        _, watermark_ms = self._client.get_timestamps("eventTime")
        if watermark_ms != self._read():
            self._kept.update((str(watermark_ms),))
        self._client.remove_implicit_key()

    def _read(self) -> int:
        self._client.set_implicit_key((CLOCK_BUCKET,))
        kept = self._kept.get()
        return int(kept[0]) if kept else 0


def _query_id() -> str | None:
    """The run id of the query that this task belongs to."""
    context = TaskContext.get()
    return context.getLocalProperty(QUERY_PROPERTY) if context else None


def _results(result: StepResult, worked: str) -> Iterator[Row]:
    for payload in encode_output(result.output):
        yield Row(**{PAYLOAD: payload, **dict.fromkeys(COUNTS), _WORK: None})
    sums = (result.rows_in, result.corrected_rows, result.late_rows)
    yield Row(**{PAYLOAD: None, **dict(zip(COUNTS, sums, strict=True)), _WORK: worked})


class _SparkStore:
    """The state of the key that Spark has set."""

    def __init__(self, handle: Any, manifest: Any, runs: Any, lag_ms: int) -> None:
        self._handle = handle
        self._manifest = manifest
        self._runs = runs
        self._lag_ms = lag_ms

    def read_manifest(self) -> str | None:
        kept = self._manifest.get()
        return kept[0] if kept else None

    def write_manifest(self, text: str) -> None:
        self._manifest.update((text,))

    def clear_manifest(self) -> None:
        self._manifest.clear()

    def read_run(self, name: str) -> bytes | None:
        kept = self._runs.getValue((name,))
        return bytes(kept[0]) if kept else None

    def write_run(self, name: str, content: bytes) -> None:
        self._runs.updateValue((name,), (content,))

    def remove_run(self, name: str) -> None:
        self._runs.removeKey((name,))

    def set_timer(self, before_ms: int | None, after_ms: int | None) -> None:
        if before_ms is not None:
            self._handle.deleteTimer(with_lag(before_ms, self._lag_ms))
        if after_ms is not None:
            self._handle.registerTimer(with_lag(after_ms, self._lag_ms))
