"""The driver's side of the `Topic` sink: chooses who writes a micro-batch, and keeps its fence.

A small batch is collected and written by the driver, rows and fence in one transaction: fewer steps, and no
task waits for Python. A larger one is written by its tasks side by side, each in a transaction of its own
with a fence of its own. Before they start, the driver's fence names the batch that they are about to write: if only
some of them complete before a crash, the batch is written again with the same number, and those tasks skip.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import topic_task
from headrace.pipeline.sinks.driver_rows import collect, collect_few
from headrace.pipeline.sinks.sink import Reject, RejectedRow, SinkWriter
from headrace.pipeline.sinks.topic_admin import empty_topic
from headrace.pipeline.sinks.transactional_batch import TransactionalBatch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_BY_TASKS = "tasks"


def writer_name(job: str, topic: str) -> str:
    """For transactions and groups. No topic has a colon in its name, so no two jobs and topics share one."""
    return f"headrace-sink:{job}:{topic}"


class TopicWriter(SinkWriter):
    """Writes batches of columns `value`, and perhaps `key` and `headers`, to one topic for one job."""

    def __init__(
        self,
        job: str,
        topic: str,
        *,
        bootstrap: str,
        compression: str,
        timeout_s: float,
        driver_rows_max: int,
    ) -> None:
        self._driver_rows_max = driver_rows_max
        self._written: Fence | None = None
        self._batch = TransactionalBatch(
            writer_name(job, topic),
            topic=topic,
            bootstrap=bootstrap,
            compression=compression,
            timeout_s=timeout_s,
        )
        self._target = self._batch.target  # opens it

    def applied(self) -> Fence | None:
        """The last batch that was started. If tasks wrote it, some may have failed: it must be written again."""
        return self._batch.applied()

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        if self._is_written(fence):
            return 0
        if self._is_started_by_tasks(fence):
            raise BadSink(
                f"tasks have started batch {fence.batch_id} of {self._target.topic}, and only tasks can complete it",
                hint="start the job again as it was",
            )
        with self._batch.transaction(fence) as producer:
            written, rejected = topic_task.write_rows(producer, rows)
            if rejected:
                reject(_rejected_rows(line for batch in rejected for line in batch.to_pylist()))
        return written

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        if self._is_written(fence):
            return 0
        if not self._is_started_by_tasks(fence):
            rows = collect_few(batch, fence, self._driver_rows_max)
            if rows is not None:
                return self.apply(rows, fence, reject)
        return self._write_by_tasks(batch, fence, reject)

    def clear(self) -> None:
        """Delete all records of the topic, also those of other writers."""
        empty_topic(self._batch.cluster(), self._target.topic)
        self._written = None
        self._batch.clear()  # last: after a crash in between, the fence is still there

    def close(self) -> None:
        self._batch.close()

    # By tasks

    def _write_by_tasks(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        responses = self._tasks(batch, fence, skips_rejected=False)
        tasks = responses._jdf.queryExecution().toRdd().getNumPartitions()
        self._start_by_tasks(fence, tasks)
        lines = _lines(responses)
        rejected = _rejected_rows(lines)
        if rejected:
            reject(rejected)
            lines += _lines(self._tasks(batch, fence, skips_rejected=True))
        self._written = fence
        return sum(line["written"] or 0 for line in lines)

    def _tasks(self, batch: DataFrame, fence: Fence, *, skips_rejected: bool) -> DataFrame:
        plan = topic_task.TaskPlan(
            writer=self._batch.writer,
            target=self._target,
            fence=msgspec.structs.replace(fence, starts=(), ends=()),
            skips_rejected=skips_rejected,
        )
        return batch.mapInArrow(functools.partial(topic_task.write_part, plan), topic_task.RESPONSE_COLUMNS)

    def _start_by_tasks(self, fence: Fence, tasks: int) -> None:
        if not self._is_started_by_tasks(fence):
            with self._batch.transaction(fence, marks={_BY_TASKS: tasks}):
                return
        started = self._batch.marks_kept()[_BY_TASKS]
        if started != tasks:
            raise BadSink(
                f"batch {fence.batch_id} of {self._target.topic} was started with {started} tasks, and has {tasks} "
                "now: its rows would not match the fences of their tasks",
                hint="start the job with the number of partitions that it had before; change it afterwards",
            )

    # The fence

    def _is_started_by_tasks(self, fence: Fence) -> bool:
        """Whether tasks of this very batch may have written already, and others not."""
        applied = self._batch.applied()
        is_this_one = applied is not None and applied.covers(fence) and applied.batch_id == fence.batch_id
        return is_this_one and _BY_TASKS in self._batch.marks_kept()

    def _is_written(self, fence: Fence) -> bool:
        """A batch is started when all batches before it are complete."""
        if self._written is not None and self._written.covers(fence):
            return True
        applied = self._batch.applied()
        return applied is not None and applied.covers(fence) and not self._is_started_by_tasks(fence)


def _lines(responses: DataFrame) -> list[dict[str, Any]]:
    """Runs the tasks."""
    return [line for batch in collect(responses) for line in batch.to_pylist()]


def _rejected_rows(lines: Iterable[Mapping[str, Any]]) -> list[RejectedRow]:
    return [
        RejectedRow(
            row={"key": _text(line["key"]), "value": _text(line["value"])},
            reason=line["reason"],
            headers=tuple((each["key"], each["value"]) for each in line["headers"] or ()),
        )
        for line in lines
        if line["reason"] is not None
    ]


def _text(content: bytes | None) -> str | bytes | None:
    """Text if it is UTF-8: people read it."""
    try:
        return None if content is None else bytes(content).decode()
    except UnicodeDecodeError:
        return content
