"""What a task of Spark does for the `Topic` sink: write its part of a micro-batch in a transaction of its own.

Runs in Spark's Python workers, which outlive tasks: producers stay open there from batch to batch. Rows come
as Arrow columns `value`, and perhaps `key`, `headers` and the problem of a row that its schema rejects; the result is a
line with the number of rows, or the rows that are rejected.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark import TaskContext

from headrace.errors import HeadraceError
from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.fenced_producer import FencedProducer, Target

PRODUCERS_MAX = 8
"""Producers that a worker keeps open: each has threads and connections. A worker sees as many as its jobs
have tasks at a time."""

BATCH_OVERHEAD_BYTES_MAX = 61 + 40
"""What the smallest record batch has besides key, value and headers: its own header, and the numbers of a
record at their longest."""

PROBLEM = "__headrace_problem"
"""The column with the reason why a row is rejected, or null. The value of such a row is shown, and not written."""

REJECTED_BYTES_MAX = 64 * 1024 * 1024
"""Rejected rows travel to the driver. A task with more of them than this has a topic of the wrong size, not a
few wrong rows."""

RESPONSE_SCHEMA = pa.schema(
    [
        ("written", pa.int64()),
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
RESPONSE_COLUMNS = (
    "written BIGINT, reason STRING, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class TaskPlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch needs."""

    writer: str
    target: Target
    fence: Fence
    """Without offsets: a task has no use for them."""
    skips_rejected: bool
    """After the driver has written them as dead letters. Before, a task with a rejected row writes nothing."""


def task_writer(writer: str, task: int) -> str:
    return f"{writer}:task-{task}"


def write_part(plan: TaskPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`."""
    rows = (batch for batch in batches if batch.num_rows)
    first = next(rows, None)
    if first is None:
        return
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    producer = _begin(plan, task_writer(plan.writer, context.partitionId()))
    if producer is None:
        for _ in rows:  # Spark can't use a worker again that has not read all rows
            pass
        yield _written_response(0)
        return
    try:
        written, rejected = write_rows(producer, itertools.chain([first], rows))
        is_rejected = bool(rejected) and not plan.skips_rejected
        if not is_rejected:
            producer.commit()
    except BaseException:
        _drop(producer)
        raise
    if is_rejected:
        # librdkafka may reuse the sequence numbers of aborted records, so this producer is not used again.
        _drop(producer)
        yield from rejected
    else:
        yield _written_response(written)


def write_rows(
    producer: FencedProducer, batches: Iterable[pa.RecordBatch]
) -> tuple[int, list[pa.RecordBatch]]:
    """Produce the rows that fit. Returns their number, and responses for the others."""
    topic, message_bytes_max = producer.target.topic, producer.target.message_bytes_max
    written = rejected_bytes = 0
    rejected: list[pa.RecordBatch] = []
    for batch in batches:
        batch, misfits = split_by_problem(batch)
        taken, too_large = split_by_size(batch, message_bytes_max - BATCH_OVERHEAD_BYTES_MAX)
        if misfits is not None:
            rejected_bytes += misfits.nbytes
            rejected.append(_rejection_response(misfits, misfits.column(PROBLEM).to_pylist()))
        if too_large is not None:
            rejected_bytes += too_large.nbytes
            reasons = [
                f"a message of {size:,} bytes; the topic takes {message_bytes_max:,}"
                for size in content_sizes(too_large).to_pylist()
            ]
            rejected.append(_rejection_response(too_large, reasons))
        if rejected_bytes > REJECTED_BYTES_MAX:
            raise HeadraceError(
                f"{topic}: more than {REJECTED_BYTES_MAX:,} bytes of rows in one task exceed the "
                f"{message_bytes_max:,} bytes of the topic's max.message.bytes, or violate its schema",
                hint="raise max.message.bytes of the topic, or write less in a row; check the schema",
            )
        _produce(producer, topic, taken)
        written += taken.num_rows
    return written, rejected


def split_by_problem(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows without a problem, and the others, if there are such."""
    if PROBLEM not in batch.schema.names:
        return batch, None
    is_good = batch.column(PROBLEM).is_null()
    if pc.all(is_good).as_py():
        return batch, None
    return batch.filter(is_good), batch.filter(pc.invert(is_good))


def split_by_size(
    batch: pa.RecordBatch, content_bytes_max: int
) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    """The rows whose content fits, and the ones whose does not, if there are such."""
    sizes = content_sizes(batch)
    if (pc.max(sizes).as_py() or 0) <= content_bytes_max:
        return batch, None
    fits = pc.less_equal(sizes, content_bytes_max)
    return batch.filter(fits), batch.filter(pc.invert(fits))


def content_sizes(batch: pa.RecordBatch) -> pa.Array:
    """The bytes of each row's key, value and headers."""
    sizes = _lengths(batch.column("value"))
    if "key" in batch.schema.names:
        sizes = pc.add(sizes, _lengths(batch.column("key")))
    if "headers" in batch.schema.names:
        numbers = [
            sum(len(each["key"]) * 4 + len(each["value"] or b"") + 10 for each in row or ())
            for row in batch.column("headers").to_pylist()
        ]
        sizes = pc.add(sizes, pa.array(numbers, pa.int64()))
    return sizes


def _lengths(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())


def _produce(producer: FencedProducer, topic: str, batch: pa.RecordBatch) -> None:
    """Hand the columns to the client, with as little as can be done for each row in Python."""
    names = batch.schema.names
    values = bytes_of(batch.column("value"))
    keys = bytes_of(batch.column("key")) if "key" in names else None
    if "headers" in names:
        for index, headers in enumerate(batch.column("headers").to_pylist()):
            pairs = [(each["key"], each["value"]) for each in headers or ()]
            producer.produce(topic, values[index], keys[index] if keys else None, pairs)
    elif keys is None:
        producer.produce_many(topic, [{"value": each} for each in values], batch.nbytes)
    else:
        pairs_of = zip(values, keys, strict=True)
        producer.produce_many(topic, [{"value": each, "key": key} for each, key in pairs_of], batch.nbytes)


def bytes_of(column: pa.Array) -> list[bytes | None]:
    """A column of texts or bytes as Python's bytes. numpy creates them in C."""
    values: list[bytes | None] = column.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return values


# Producers that stay open

_producers: OrderedDict[tuple[str, str], FencedProducer] = OrderedDict()


def _begin(plan: TaskPlan, writer: str) -> FencedProducer | None:
    """A producer with an open transaction, or None if the fence is covered.

    A kept producer may be fenced, because another worker ran this task meanwhile, or unknown to a broker that has
    restarted. Then the name is opened again, once.
    """
    place = (plan.target.bootstrap, writer)
    producer = _producers.pop(place, None)
    is_new = producer is None
    while True:
        if producer is None:
            producer = FencedProducer(writer, plan.target)
        kept = None if producer.kept is None else Fence.from_json(producer.kept)
        _keep(place, producer)
        if kept is not None and kept.covers(plan.fence):
            return None
        try:
            producer.begin(plan.fence.batch_id, plan.fence.to_json())
            return producer
        except SinkUnavailable:
            _drop(producer)
            if is_new:
                raise
        producer, is_new = None, True


def _keep(place: tuple[str, str], producer: FencedProducer) -> None:
    _producers[place] = producer
    while len(_producers) > PRODUCERS_MAX:
        _, oldest = _producers.popitem(last=False)
        oldest.close()


def _drop(producer: FencedProducer) -> None:
    for place in [place for place, kept in _producers.items() if kept is producer]:
        del _producers[place]
    with contextlib.suppress(SinkUnavailable):
        producer.abort()
    producer.close()


# Responses


def _written_response(written: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"written": written}], schema=RESPONSE_SCHEMA)


def _rejection_response(rows: pa.RecordBatch, reasons: list[str]) -> pa.RecordBatch:
    contents = [_column(rows, name) for name in ("key", "value", "headers")]
    columns = [pa.nulls(rows.num_rows, pa.int64()), reasons, *contents]
    return pa.RecordBatch.from_arrays(columns, schema=RESPONSE_SCHEMA)


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Nulls if the rows have no such column."""
    kind = RESPONSE_SCHEMA.field(name).type
    return rows.column(name).cast(kind) if name in rows.schema.names else pa.nulls(rows.num_rows, kind)
