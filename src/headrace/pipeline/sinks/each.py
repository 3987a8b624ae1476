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
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.sink import Refuse, RefusedRow, Sink, SinkWriter, check_one_of

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headrace.pipeline.fence import Fence

Per = Literal["row", "batch"]

REASON_CHARACTERS_MAX = 500
"""Of an exception's text, in a dead letter: a library may put a whole answer of a server there."""


class TryAgain(HeadraceError):
    """Raised by a function if the cause is not in its rows: the batch fails, and the job retries it."""


@dataclass(frozen=True, slots=True)
class Each(Sink):
    """Calls `function(row, batch)` with each row as a dict, or with `per="batch"` once with a `pyarrow.Table`.

    `batch` is the `Fence` of the batch: `batch.job`, `batch.checkpoint` and `batch.batch_id` are the same when a batch
    is repeated after a crash. Functions run on the driver, one call after the other.
    """

    function: Callable[[Any, Fence], object]
    _: KW_ONLY
    per: Per = "row"
    refused_rows_max: int = 1_000
    """In one batch. Beyond it the batch fails: an unavailable target would turn all rows into dead letters."""

    kind: ClassVar[str] = "each"
    guarantee = "at-least-once"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise BadSink(
                f"{self.function!r} is no function", hint="Each takes a function of a row and a batch"
            )
        check_one_of("per", self.per, Per)
        if self.refused_rows_max < 0:
            raise BadSink("refused_rows_max is below 0", hint="0 lets the first refused row fail the batch")

    def target(self) -> str:
        return f"function {getattr(self.function, '__qualname__', type(self.function).__qualname__)}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return _RowByRow(self) if self.per == "row" else _BatchByBatch(self)


class _Caller(SinkWriter):
    def __init__(self, sink: Each) -> None:
        self._sink = sink

    def applied(self) -> Fence | None:
        """Unknown: the target of a function has no fence."""
        return None

    def clear(self) -> None:
        """Nothing: only the function knows its target."""

    def close(self) -> None: ...


class _RowByRow(_Caller):
    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        written = 0
        refused: list[RefusedRow] = []
        for row in (row for batch in rows for row in batch.to_pylist()):
            try:
                self._sink.function(row, fence)
                written += 1
            except TryAgain:
                raise
            except Exception as error:
                refused.append(RefusedRow(row=row, reason=_reason(error)))
                self._check(refused, error)
        if refused:
            refuse(refused)
        return written

    def _check(self, refused: list[RefusedRow], error: Exception) -> None:
        if len(refused) > self._sink.refused_rows_max:
            raise HeadraceError(
                f"{self._sink.target()} refused more than {self._sink.refused_rows_max} rows of a batch, "
                f"the last one with {_reason(error)}",
                hint="mend the cause, or raise refused_rows_max if these rows are to become dead letters",
            ) from error


class _BatchByBatch(_Caller):
    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        batches = list(rows)
        if not batches:
            return 0
        table = pyarrow.Table.from_batches(batches)
        self._sink.function(table, fence)
        return int(table.num_rows)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:REASON_CHARACTERS_MAX]
