"""What a sink provides to be tested against the contract of all sinks.

A file `sink_case_<sink>.py` beside this one registers cases; `test_sinks.py` runs every promise on each of them:

    @sink_case("table-sqlite")
    def sqlite(lab: Lab) -> SinkCase:
        path = lab.folder / "views.db"
        return SinkCase(sink=lambda: Table("contract", key="id", at=path), read=lambda schema: rows_of(path))
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import RejectedRow, Sink, SinkWriter

JOB = "contract"
KEY = "id"
SCHEMA = StructType().add("id", "string").add("n", "long").add("note", "string")

Row = dict[str, Any]
Read = Callable[[StructType], list[Row]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What a case may use. Fixtures by `lab.fixture("postgres")`; what must be closed goes on `lab.stack`."""

    spark: SparkSession
    folder: Path
    request: pytest.FixtureRequest
    name: str
    """One that nothing else in this run has: for topics, databases, prefixes of keys."""
    stack: contextlib.ExitStack

    def fixture(self, name: str) -> Any:
        return self.request.getfixturevalue(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCase:
    """A sink on a target that is empty at first, with the key `id` if it has keys.

    sink            creates it, each time for the same target
    read            the rows in the target now, in any order, values as Python has them (`as_python` helps)
    is_keyed        a row replaces the row of its key; otherwise all rows are appended
    has_deletes     `op` d and - delete rows
    rejected         a row of `SCHEMA` that the target rejects; None if it accepts all
    is_fenced       the target keeps a fence; without one a repeated batch is written again
    is_atomic       readers see all of a batch or nothing, and a failed batch leaves nothing
    left_out        types that the sink can't store (names as in DDL)
    """

    sink: Callable[[], Sink]
    read: Read
    is_keyed: bool = True
    has_deletes: bool = True
    rejected: Row | None = None
    is_fenced: bool = True
    is_atomic: bool = True
    left_out: frozenset[str] = frozenset()


MakeCase = Callable[[Lab], SinkCase]
CASES: dict[str, MakeCase] = {}


def sink_case(name: str) -> Callable[[MakeCase], MakeCase]:
    def register(make: MakeCase) -> MakeCase:
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = make
        return make

    return register


def find_cases() -> list[str]:
    """The names of all cases, from all files that have some."""
    for file in sorted(Path(__file__).parent.glob("sink_case_*.py")):
        importlib.import_module(f"tests.contract.{file.stem}")
    return sorted(CASES)


@dataclass(slots=True, kw_only=True)
class Bench:
    """A sink at work in a test: batches go in, rows are read from the target."""

    spark: SparkSession
    case: SinkCase
    rejected: list[RejectedRow] = field(default_factory=list)
    _writers: dict[tuple[str, str], SinkWriter] = field(default_factory=dict)

    def frame(self, rows: Iterable[Row], schema: StructType = SCHEMA) -> DataFrame:
        tuples = [tuple(row.get(name) for name in schema.names) for row in rows]
        return self.spark.createDataFrame(tuples, schema)

    def write(
        self,
        batch: DataFrame | Sequence[Row],
        batch_id: int,
        *,
        checkpoint: str = "first",
        job: str = JOB,
        reject: Callable[[Sequence[RejectedRow]], None] | None = None,
    ) -> int:
        rows = batch if isinstance(batch, DataFrame) else self.frame(batch)
        prepared = self.case.sink().prepare(rows)
        writer = self.writer(job, prepared.schema)
        return writer.write(
            prepared, fence(batch_id, checkpoint=checkpoint, job=job), reject or self.rejected.extend
        )

    def writer(self, job: str = JOB, schema: StructType | None = None) -> SinkWriter:
        """The one that is open; a new one for rows of another schema."""
        if schema is None:
            schema = self.case.sink().prepare(self.frame([])).schema
        place = (job, schema.json())
        if place not in self._writers:
            self._writers[place] = self.case.sink().open(job, schema)
        return self._writers[place]

    def reopen(self) -> None:
        """Close all writers: the next batch opens a new one, as after a restart of the job."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def rows(self, schema: StructType = SCHEMA) -> list[Row]:
        """What the target has, in an order that can be compared."""
        return in_order(self.case.read(schema))


def fence(batch_id: int, *, checkpoint: str = "first", job: str = JOB) -> Fence:
    return Fence(
        job=job,
        checkpoint=checkpoint,
        batch_id=batch_id,
        starts=(json.dumps({"clicks": {"0": batch_id * 10}}),),
        ends=(json.dumps({"clicks": {"0": batch_id * 10 + 10}}),),
    )


def row(id: str, n: int | None = 0, note: str | None = None) -> Row:
    return {"id": id, "n": n, "note": note}


def in_order(rows: Iterable[Row]) -> list[Row]:
    return sorted(
        rows, key=lambda each: [(name, each[name] is not None, str(each[name])) for name in sorted(each)]
    )


def as_python(kept: Any, kind: DataType) -> Any:
    """A value as targets without its type keep it (ISO text, JSON, base64, 0 and 1), back to what Spark had."""
    if kept is None:
        return None
    name = kind.typeName()
    if name in {"array", "map", "struct"}:
        return json.loads(kept) if isinstance(kept, str) else kept
    if name == "binary" and isinstance(kept, str):
        return base64.b64decode(kept)
    if name == "boolean":
        return kept if isinstance(kept, bool) else str(kept).lower() in {"1", "true"}
    if name == "decimal":
        return Decimal(str(kept))
    if name in {"byte", "short", "integer", "long"}:
        return int(kept)
    if name == "float":
        return struct.unpack("f", struct.pack("f", float(kept)))[0]
    if name == "double":
        return float(kept)
    return _as_time(kept, name)


def _as_time(kept: Any, name: str) -> Any:
    if name == "date" and isinstance(kept, str):
        return date.fromisoformat(kept)
    if name == "timestamp":
        at = datetime.fromisoformat(kept) if isinstance(kept, str) else kept
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if name == "timestamp_ntz" and isinstance(kept, str):
        return datetime.fromisoformat(kept)
    if name == "daytimeinterval" and isinstance(kept, int):
        return timedelta(microseconds=kept)
    return kept
