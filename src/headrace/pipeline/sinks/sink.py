"""What every sink is: a frozen description, and a writer that applies each micro-batch exactly once.

A sink checks its options when it is made, and does not connect to its target. Its writer is opened on the driver when
the job starts. `tests/contract/sink_contract.py` is this module in the form of tests.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from msgspec import Struct

from headrace.pipeline.errors import BadSink

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.pipeline.fence import Fence

Guarantee = Literal["exactly-once", "at-least-once", "none"]
OutputMode = Literal["append", "update", "complete"]
"""Spark's."""


def check_one_of(field: str, given: object, choices: Any) -> None:
    """Raise `BadSink` unless the value of a field is one of its type's, a `Literal`."""
    if given not in get_args(choices):
        raise BadSink(f"{field}={given!r} is unknown", hint=f"choose one of {', '.join(get_args(choices))}")


def check_folder_name(what: str, name: str) -> None:
    """Raise `BadSink` unless the name is one of a folder below another, whatever it is joined to."""
    if not name or name in (".", "..") or set(name) & {"/", "\\", "\0"}:
        raise BadSink(
            f"{what} can't be called {name!r}",
            hint="its folder has this name: no / and \\, and neither . nor ..",
        )


class RefusedRow(Struct, frozen=True, kw_only=True):
    """A row that the target refuses, however often it is written. It becomes a dead letter of the job."""

    row: Mapping[str, Any]
    reason: str
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Headers of the message that the row would have become; the dead letter has them too."""


Refuse = Callable[[Sequence[RefusedRow]], None]
"""Called by a writer before it commits the rest of the batch, so that a crash in between loses no row."""


class NativeSink(Struct, frozen=True, kw_only=True):
    """A format of Spark that writes the stream itself, without a writer and a fence."""

    format: str
    options: Mapping[str, str]


class SinkWriter(abc.ABC):
    """Applies batches to one target for one job. Lives on the driver, and is used by one thread at a time."""

    @abc.abstractmethod
    def applied(self) -> Fence | None:
        """The fence of this job in the target, of whichever checkpoint."""

    @abc.abstractmethod
    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        """Write the rows and the fence in one step, or skip the batch if the target's fence already covers it.

        Returns how many rows were written. The rows have the columns that `prepare` of the sink returns.
        """

    def write(self, batch: DataFrame, fence: Fence, refuse: Refuse) -> int:
        """As `apply`, for the rows of a DataFrame. Overridden where tasks can write side by side."""
        return self.apply(batch.toArrow().to_batches(), fence, refuse)

    @abc.abstractmethod
    def clear(self) -> None:
        """Delete all rows and the fence, before a job rebuilds the target by replay."""

    @abc.abstractmethod
    def close(self) -> None: ...


class Sink(abc.ABC):
    """The description of a target."""

    kind: ClassVar[str]
    """One word for the graph and for `writeStream.format("headrace-<kind>")`."""

    guarantee: Guarantee = "exactly-once"

    @abc.abstractmethod
    def target(self) -> str:
        """What the graph of a job shows, such as `table clicks_by_url`. The same target gives the same text."""

    @abc.abstractmethod
    def open(self, job: str, schema: StructType) -> SinkWriter:
        """Check the target against the schema that `prepare` returns, create what is missing, and open it."""

    def prepare(self, rows: DataFrame) -> DataFrame:
        """The rows in the shape that the writer wants. Bounded and streaming DataFrames alike."""
        return rows

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        """The output mode of a job that does not set one."""
        return "update" if aggregated and not watermarked else "append"

    def native(self) -> NativeSink | None:
        """Spark's own format, for the sinks that leave the writing to Spark."""
        return None
