"""Runs an example in the session of the tests, and then its jobs twice over: as a stream and bounded.

The rows must be the same. After the output of the example, a line for each compared job follows, or an error with the
first difference.

Not for jobs with stateful operators of Headrace's: those choose how to run when they are declared, and tests/operators
compare them both ways.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.fence import Fence
from headrace.pipeline.graph.plan import read as read_plan
from headrace.pipeline.job import Job
from headrace.pipeline.run.supervisor import RunningJob
from headrace.pipeline.sinks.sink import Reject, Sink, SinkWriter
from tests.examples.bounded_plan import bounded

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

ROWS_PER_BATCH = "7"
"""Few enough that the stream has several batches, which a bounded read never has."""

WAIT_S = 300.0
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Captured(Sink):
    """Keeps rows in memory, in their order."""

    kind: ClassVar[str] = "captured"

    rows: list[Row] = field(default_factory=list)

    def target(self) -> str:
        return "memory"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        return _Keeper(self.rows)


class _Keeper(SinkWriter):
    def __init__(self, rows: list[Row]) -> None:
        self._rows = rows

    def applied(self) -> Fence | None:
        return None

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        found = [row for batch in rows for row in batch.to_pylist()]
        self._rows += found
        return len(found)

    def clear(self) -> None:
        self._rows.clear()

    def close(self) -> None: ...


_start = Job.start


def run_example(example: Path, *, compared: Collection[str], hooks: pytest.MonkeyPatch) -> None:
    """`compared` names the jobs that are run both ways. The session is not stopped: other tests use it too."""
    jobs: dict[str, Job] = {}

    def remember_and_start(job: Job) -> RunningJob:
        if job.name in compared and job.rows.isStreaming:
            jobs[job.name] = job
        return _start(job)

    def compare(spark: SparkSession) -> None:
        for name in list(jobs):
            _compare(jobs.pop(name))

    hooks.setenv("HEADRACE_PIPELINE_ROWS_PER_BATCH_MAX", ROWS_PER_BATCH)
    hooks.setattr(Job, "start", remember_and_start)
    hooks.setattr(SparkSession, "stop", compare)
    runpy.run_path(str(example), run_name="__main__")
    assert not jobs, "the example ended without stopping its session, and nothing was compared"


def _compare(job: Job) -> None:
    streamed, watermark = _as_stream(job)
    at_once: list[Row] = []
    _run(replace(job, name=f"{job.name}-bounded", rows=bounded(job.rows), sink=Captured(at_once)))
    at_once = [row for row in at_once if not _is_open(row, watermark)]
    key = _key(job)
    expected, found = _final(at_once, key), _final(streamed, key)
    for position, (row, other) in enumerate(zip(expected, found, strict=False)):
        assert row == other, f"job {job.name}: row {position} is {other} as a stream and {row} bounded"
    assert len(expected) == len(found), (
        f"job {job.name}: {len(found)} rows as a stream and {len(expected)} bounded"
    )
    print(f"both ways: {job.name}: {len(found)} rows")


def _as_stream(job: Job) -> tuple[list[Row], str | None]:
    """The rows of a drained stream, and its last watermark if that decides what was emitted."""
    rows: list[Row] = []
    described = read_plan(job.rows)
    output_mode = job.output_mode or job.sink.output_mode(
        aggregated=described.is_aggregated, watermarked=described.is_watermarked
    )
    again = replace(
        job,
        name=f"{job.name}-streamed",
        sink=Captured(rows),
        mode="batch",
        output_mode=output_mode,
        checkpoint=None,
    )
    running = _run(again)
    is_held_back = described.is_aggregated and output_mode == "append"
    return rows, running.status().watermark if is_held_back else None


def _run(job: Job) -> RunningJob:
    running = _start(job)
    assert running.wait(WAIT_S), f"job {job.name} does not end"
    return running


def _key(job: Job) -> tuple[str, ...]:
    """A row replaces the earlier one of its key, unless the target adds them up."""
    key = () if getattr(job.sink, "merge", None) else getattr(job.sink, "key", ())
    is_replacing = read_plan(job.rows).is_aggregated or getattr(job.sink, "mode", "") == "upsert"
    return ((key,) if isinstance(key, str) else tuple(key)) if is_replacing else ()


def _final(rows: list[Row], key: tuple[str, ...]) -> list[str]:
    texts = [json.dumps(row, default=str, sort_keys=True) for row in rows]
    if key:
        texts = list(
            dict(zip((str([row[name] for name in key]) for row in rows), texts, strict=True)).values()
        )
    return sorted(texts)


def _is_open(row: Row, watermark: str | None) -> bool:
    """A window that the watermark has not closed: a stream has not emitted it, a bounded read has."""
    end = row.get("window_end") or (row.get("window") or {}).get("end")
    return watermark is not None and end is not None and end.isoformat() > watermark.removesuffix("Z")
