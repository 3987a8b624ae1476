"""What every sink is: a frozen description, and a writer that applies each micro-batch exactly once.

A sink checks its options when it is created, and does not connect to its target. Its writer is opened on the driver
when the job starts. `tests/contract/sink_contract.py` is this module in the form of tests.
"""

from __future__ import annotations

import abc
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args

from msgspec import Struct

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.options import read_options
from headrace.plan_names import FAILED_ROW

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headrace.pipeline.fence import Fence

Guarantee = Literal["exactly-once", "at-least-once", "none"]
OutputMode = Literal["append", "update", "complete"]
"""Spark's."""


def check_folder_name(what: str, name: str) -> None:
    """Raise `BadSink` unless the name is one of a folder below another, whatever it is joined to."""
    if not name or name in (".", "..") or set(name) & {"/", "\\", "\0"}:
        raise BadSink(
            f"{what} can't be called {name!r}",
            hint="its folder has this name: no / and \\, and neither . nor ..",
        )


class RejectedRow(Struct, frozen=True, kw_only=True):
    """A row that the target rejects, however often it is written. It becomes a dead letter of the job."""

    row: Mapping[str, Any]
    reason: str
    headers: tuple[tuple[str, bytes | None], ...] = ()
    """Headers of the message that the row would have become; the dead letter has them too."""


Reject = Callable[[Sequence[RejectedRow]], None]
"""Called by a writer before it commits the rest of the batch, so that a crash in between loses no row."""


class NativeSink(Struct, frozen=True, kw_only=True):
    """A format of Spark that writes the stream itself, without a writer and a fence."""

    format: str
    options: Mapping[str, str]


class SinkWriter(abc.ABC):
    """Applies batches to one target for one job. Lives on the driver, and is used by one thread at a time."""

    @abc.abstractmethod
    def applied(self) -> Fence | None:
        """The fence of this job in the target, of any checkpoint."""

    @abc.abstractmethod
    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        """Write the rows and the fence in one step, or skip the batch if the target's fence already covers it.

        Returns how many rows were written. The rows have the columns that `prepare` of the sink returns.
        """

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        """As `apply`, for the rows of a DataFrame. Overridden where tasks can write side by side."""
        return self.apply_collected(batch.toArrow().to_batches(), fence, reject)

    def apply_collected(self, rows: Sequence[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        """As `write`, for rows that are on the driver already."""
        if rows and FAILED_ROW in rows[0].schema.names:
            import pyarrow

            table, failed = without_failed(pyarrow.Table.from_batches(rows))
            if failed:
                reject(failed)
            rows = table.to_batches()
        return self.apply(rows, fence, reject)

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

    is_folder: ClassVar[bool] = False
    """Whether the field `at` is a folder, which can name the sink in the options of a Spark writer."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """From the options of a Spark writer."""
        found = read_options(cls, options)
        if cls.is_folder and not found.get("name"):
            found["name"] = str(found.get("at", "")).rstrip("/").rpartition("/")[2]
        if not found.get("name"):
            raise BadSink(f"headrace-{cls.kind} needs a name", hint='.option("name", …)')
        return cls(**found)

    def set_names(self, *fields: str) -> None:
        """One column or several: a field that takes both becomes a tuple."""
        for field in fields:
            given = getattr(self, field)
            object.__setattr__(self, field, (given,) if isinstance(given, str) else tuple(given))

    def check_choice(self, field: str, choices: Any) -> None:
        """Raise `BadSink` unless the value of a field is one of its type's, a `Literal`."""
        given, known = getattr(self, field), get_args(choices)
        if given not in known:
            raise BadSink(f"{field}={given!r} is unknown", hint=f"choose one of {', '.join(known)}")

    def check_columns(self, wanted: Iterable[str | None], columns: Sequence[str]) -> None:
        """Raise `BadSink` unless the rows have all columns that the sink names."""
        missing = [name for name in wanted if name is not None and name not in columns]
        if missing:
            raise BadSink(
                f"{self.target()}: the rows have no column {', '.join(missing)}",
                hint=f"their columns are: {', '.join(columns)}",
            )

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


def without_failed(rows: pyarrow.Table) -> tuple[pyarrow.Table, list[RejectedRow]]:
    """The rows on which no expression failed, without the column that tells; and the others. A delete is in both."""
    rows, texts = split_failed(rows)
    return rows, failed_rows(texts)


def split_failed(rows: pyarrow.Table) -> tuple[pyarrow.Table, list[str]]:
    """As `without_failed`, with the others as `failed_rows` reads them."""
    import pyarrow.compute as pc

    is_failed = pc.is_valid(rows[FAILED_ROW])
    if not pc.any(is_failed).as_py():
        return rows.drop_columns(FAILED_ROW), []
    texts = rows[FAILED_ROW].filter(is_failed).to_pylist()
    is_kept = pc.invert(is_failed)
    if "op" in rows.column_names:
        is_kept = pc.or_kleene(is_kept, pc.equal(rows["op"], "d"))
    return rows.filter(is_kept).drop_columns(FAILED_ROW), texts


def failed_rows(texts: Iterable[str]) -> list[RejectedRow]:
    found = map(json.loads, texts)
    return [RejectedRow(row=each["row"], reason=each["reason"]) for each in found]


_NOT_NULL = re.compile(r'("(?:nullable|containsNull|valueContainsNull)":)false')


def with_nullable_fields(rows: DataFrame) -> DataFrame:
    """The rows with nested fields that may be null: Arrow has no null struct whose fields may not be null."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import _parse_datatype_json_string

    changed = {}
    for each in rows.schema:
        text = each.dataType.json()
        nullable = _NOT_NULL.sub(r"\1true", text)
        if nullable != text:
            kind = _parse_datatype_json_string(nullable)
            changed[each.name] = F.col(f"`{each.name}`").cast(kind).alias(each.name, metadata=each.metadata)
    return rows.withColumns(changed) if changed else rows
