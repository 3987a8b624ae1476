"""`Each`: a Python function for every row or every batch, for targets that Headrace has no sink for.

Headrace cannot write its fence into a target that it does not know. So this sink is at least once, and hands over the
batch's identity, with which the function can do better: see docs/how-to/sink-each.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.sink import Reject, RejectedRow, Sink, SinkWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.pipeline.fence import Fence

Per = Literal["row", "batch"]

REASON_CHARACTERS_MAX = 500
"""Of an exception's text, in a dead letter: it may contain the whole response of a server."""


@dataclass(frozen=True, slots=True)
class Each(Sink):
    """Calls `function(row, batch)` with each row as a dict, or with `per="batch"` once with a `pyarrow.Table`.

    `batch` is the `Fence` of the batch: `batch.job`, `batch.checkpoint` and `batch.batch_id` are the same when a batch
    is repeated after a crash. Functions run on the driver, one call after the other.
    """

    function: Callable[[Any, Fence], object]
    _: KW_ONLY
    per: Per = "row"
    rejected_rows_max: int = 1_000
    """In one batch. Beyond it the batch fails: an unavailable target would turn all rows into dead letters."""

    kind: ClassVar[str] = "each"
    guarantee = "at-least-once"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadSink(
                f"{self.function!r} is no function", hint="Each takes a function of a row and a batch"
            )
        self.check_choice("per", Per)
        if self.rejected_rows_max < 0:
            raise BadSink("rejected_rows_max is below 0", hint="0 lets the first rejected row fail the batch")

    def target(self) -> str:
        return f"function {getattr(self.function, '__qualname__', type(self.function).__qualname__)}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return _EachWriter(self)


class _EachWriter(SinkWriter):
    def __init__(self, sink: Each) -> None:
        self._sink = sink

    def applied(self) -> Fence | None:
        """Unknown: the target of a function has no fence."""
        return None

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        if self._sink.per == "batch":
            batches = list(rows)
            if batches:
                self._sink.function(pyarrow.Table.from_batches(batches), fence)
            return sum(batch.num_rows for batch in batches)
        written = 0
        rejected: list[RejectedRow] = []
        for row in (row for batch in rows for row in batch.to_pylist()):
            try:
                self._sink.function(row, fence)
                written += 1
            except SinkUnavailable:
                raise
            except Exception as error:
                rejected.append(RejectedRow(row=row, reason=_reason(error)))
                self._check(rejected, error)
        if rejected:
            reject(rejected)
        return written

    def _check(self, rejected: list[RejectedRow], error: Exception) -> None:
        if len(rejected) > self._sink.rejected_rows_max:
            raise HeadraceError(
                f"{self._sink.target()} rejected more than {self._sink.rejected_rows_max} rows of a batch, "
                f"the last one with {_reason(error)}",
                hint="fix the cause, or raise rejected_rows_max if these rows are to become dead letters",
            ) from error

    def clear(self) -> None:
        """Nothing: only the function knows its target."""

    def close(self) -> None: ...


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
