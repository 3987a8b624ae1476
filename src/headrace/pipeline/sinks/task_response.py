"""What tasks of Spark that write a part of a batch send to the driver: counts, rejected rows, or an error."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.sink import RejectedRow

REJECTED_BYTES_MAX = 64 * 1024 * 1024
"""Rejected rows travel to the driver. A task with more of them has a target of another shape, not a few wrong rows."""

RESPONSE_COLUMNS = (
    "written BIGINT, rejected ARRAY<BINARY>, result BINARY, error STRING, hint STRING, is_permanent BOOLEAN"
)
RESPONSE_SCHEMA = pa.schema(
    [
        ("written", pa.int64()),
        ("rejected", pa.list_(pa.binary())),
        ("result", pa.binary()),
        ("error", pa.string()),
        ("hint", pa.string()),
        ("is_permanent", pa.bool_()),
    ]
)


class TaskResponse(Struct, frozen=True, kw_only=True):
    written: int = 0
    rejected: list[bytes] = []
    """Lists of `RejectedRow`, pickled."""
    result: bytes | None = None
    """What the driver needs to commit the part, as the sink encodes it."""
    error: str | None = None
    hint: str | None = None
    is_permanent: bool = False

    @classmethod
    def of_error(cls, error: HeadraceError, rows: Iterable[pa.RecordBatch]) -> TaskResponse:
        """Reads the other rows of the task: Spark can't use a worker again that has not read all of them."""
        for _ in rows:
            pass
        return cls(error=str(error), hint=error.hint, is_permanent=isinstance(error, BadSink))

    def to_arrow(self) -> pa.RecordBatch:
        values = {name: getattr(self, name) for name in RESPONSE_SCHEMA.names}
        return pa.RecordBatch.from_pylist([values], schema=RESPONSE_SCHEMA)

    def rejected_rows(self) -> Iterator[RejectedRow]:
        for each in self.rejected:
            yield from pickle.loads(each)


def respond(
    write: Callable[[Iterable[pa.RecordBatch]], TaskResponse], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The response of a task that writes these rows."""
    rows = iter(batches)
    try:
        response = write(rows)
    except HeadraceError as error:
        response = TaskResponse.of_error(error, rows)
    yield response.to_arrow()


def responses_of(found: Iterable[pa.RecordBatch]) -> list[TaskResponse]:
    """Those of all tasks; raises the error of one, a permanent one before others."""
    responses = [TaskResponse(**line) for batch in found for line in batch.to_pylist()]
    raise_task_error((each.error, each.hint, each.is_permanent) for each in responses)
    return responses


def raise_task_error(errors: Iterable[tuple[str | None, str | None, bool]]) -> None:
    for message, hint, is_permanent in sorted(errors, key=lambda each: not each[2]):
        if message is not None:
            kind = BadSink if is_permanent else SinkUnavailable
            raise kind(message, hint=hint or "")


def too_many_rejected(target: str, reason: str) -> BadSink:
    return BadSink(
        f"{target} rejects more than {REJECTED_BYTES_MAX:,} bytes of rows in one task, the last one because: {reason}",
        hint="the target does not fit the rows: change one of them",
    )
