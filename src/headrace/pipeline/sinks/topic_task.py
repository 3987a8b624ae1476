"""What a task of Spark does for the `Topic` sink: write its part of a micro-batch in a transaction of its own.

Runs in Spark's Python workers, which outlive tasks: producers stay open there from batch to batch. Rows come
as Arrow columns `value`, and perhaps `key` and `headers`; what comes back is a line about what was done, and
the rows that the topic will not take.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark import TaskContext

from headrace.errors import HeadraceError
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.fenced_producer import FencedProducer, TransactionFailed

PRODUCERS_MAX = 8
"""Producers that a worker keeps open: each has threads and connections. A worker sees as many as its jobs
have tasks at a time."""

BATCH_OVERHEAD_BYTES_MAX = 61 + 40
"""What the smallest record batch has besides key, value and headers: its own header, and the numbers of a
record at their longest."""

REFUSED_BYTES_MAX = 64 * 1024 * 1024
"""Refused rows travel to the driver. A task with more of them than this has a topic of the wrong size, not a
few wrong rows."""

ANSWER_SCHEMA = pa.schema(
    [
        ("written", pa.int64()),
        ("reason", pa.string()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
ANSWER_COLUMNS = (
    "written BIGINT, reason STRING, key BINARY, value BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


class TaskPlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch needs."""

    writer: str
    topic: str
    bootstrap: str
    config: Mapping[str, Any]
    producer_config: Mapping[str, Any]
    timeout_s: float
    message_bytes_max: int
    job: str
    checkpoint: str
    batch_id: int
    leaves_out_refused: bool
    """Once the driver has them in safety. Before that, a task with a refused row writes nothing."""


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
    fence = Fence(job=plan.job, checkpoint=plan.checkpoint, batch_id=plan.batch_id)
    producer = _begin(plan, task_writer(plan.writer, context.partitionId()), fence)
    if producer is None:
        for _ in rows:  # a worker that leaves rows unread can't be used again
            pass
        yield _answer(0)
        return
    try:
        written, refused = write_rows(producer, plan.topic, _chain(first, rows), plan.message_bytes_max)
        is_refused = bool(refused) and not plan.leaves_out_refused
        if not is_refused:
            producer.commit()
    except BaseException:
        _drop(producer)
        raise
    if is_refused:
        # librdkafka may give the sequence numbers of what it aborts to other records, so this one is not used again.
        _drop(producer)
        yield from refused
    else:
        yield _answer(written)


def write_rows(
    producer: FencedProducer, topic: str, batches: Iterable[pa.RecordBatch], message_bytes_max: int
) -> tuple[int, list[pa.RecordBatch]]:
    """Produce the rows that fit. Returns how many there were, and the ones that do not, as answers."""
    written = refused_bytes = 0
    refused: list[pa.RecordBatch] = []
    for batch in batches:
        taken, too_large = split_by_size(batch, message_bytes_max - BATCH_OVERHEAD_BYTES_MAX)
        if too_large is not None:
            refused_bytes += too_large.nbytes
            refused.append(_answer_refused(too_large, message_bytes_max))
        if refused_bytes > REFUSED_BYTES_MAX:
            raise HeadraceError(
                f"{topic}: more than {REFUSED_BYTES_MAX:,} bytes of rows in one task are larger than the "
                f"{message_bytes_max:,} bytes that the topic takes",
                hint="raise max.message.bytes of the topic, or write less in a row",
            )
        _produce(producer, topic, taken)
        written += taken.num_rows
    return written, refused


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
    """A column of texts or bytes as Python's bytes. By way of numpy, which makes them in C."""
    values: list[bytes | None] = column.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist()
    return values


# Producers that stay open

_producers: OrderedDict[tuple[str, str], FencedProducer] = OrderedDict()


def _begin(plan: TaskPlan, writer: str, fence: Fence) -> FencedProducer | None:
    """A producer with an open transaction, or None if the fence is covered.

    A kept producer may have lost its name, because another worker did this task meanwhile, or the broker may have
    forgotten it. Then it is opened anew, once.
    """
    place = (plan.bootstrap, writer)
    producer = _producers.pop(place, None)
    is_new = producer is None
    if producer is None:
        producer = _open(plan, writer)
    while True:
        kept = None if producer.kept is None else Fence.from_json(producer.kept)
        _keep(place, producer)
        if kept is not None and kept.covers(fence):
            return None
        try:
            producer.begin(fence.batch_id, fence.to_json())
            return producer
        except TransactionFailed:
            _drop(producer)
            if is_new:
                raise
        is_new = True
        producer = _open(plan, writer)


def _open(plan: TaskPlan, writer: str) -> FencedProducer:
    return FencedProducer(
        writer,
        topic=plan.topic,
        bootstrap=plan.bootstrap,
        config=plan.config,
        producer_config=plan.producer_config,
        timeout_s=plan.timeout_s,
    )


def _keep(place: tuple[str, str], producer: FencedProducer) -> None:
    _producers[place] = producer
    while len(_producers) > PRODUCERS_MAX:
        _, oldest = _producers.popitem(last=False)
        oldest.close()


def _drop(producer: FencedProducer) -> None:
    for place in [place for place, kept in _producers.items() if kept is producer]:
        del _producers[place]
    with contextlib.suppress(TransactionFailed):
        producer.abort()
    producer.close()


# Answers


def _answer(written: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"written": written}], schema=ANSWER_SCHEMA)


def _answer_refused(rows: pa.RecordBatch, message_bytes_max: int) -> pa.RecordBatch:
    reasons = [
        f"a message of {size:,} bytes; the topic takes {message_bytes_max:,}"
        for size in content_sizes(rows).to_pylist()
    ]
    contents = [_column(rows, name) for name in ("key", "value", "headers")]
    columns = [pa.nulls(rows.num_rows, pa.int64()), reasons, *contents]
    return pa.RecordBatch.from_arrays(columns, schema=ANSWER_SCHEMA)


def _column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """As an answer has it; nulls where the rows have no such column."""
    kind = ANSWER_SCHEMA.field(name).type
    return rows.column(name).cast(kind) if name in rows.schema.names else pa.nulls(rows.num_rows, kind)


def _chain(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
