"""The driver's side of the `Topic` sink: chooses who writes a micro-batch, and keeps its fence.

A small batch is collected and written by the driver, rows and fence in one transaction: fewer steps, and no
task waits for Python. A larger one is written by its tasks side by side, each in a transaction of its own
with a fence of its own. Before they start, the driver's fence names the batch that they are about to write: if a
crash leaves some of them done and others not, the batch is written again under the same number, and the tasks
that are done skip.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.kafka.cluster import Cluster
from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import topic_task
from headrace.pipeline.sinks.collecting import collect
from headrace.pipeline.sinks.fenced_producer import size_limits
from headrace.pipeline.sinks.sink import Refuse, RefusedRow, SinkWriter
from headrace.pipeline.sinks.topic_admin import empty_topic, ensure_topic
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
        self._job = job
        self._topic = topic
        self._bootstrap = bootstrap
        self._timeout_s = timeout_s
        self._driver_rows_max = driver_rows_max
        self._cluster = Cluster(bootstrap, timeout_s=timeout_s)
        self._message_bytes_max = ensure_topic(self._cluster, topic, {})
        self._producer_config = {
            "compression.type": compression,
            **size_limits(self._message_bytes_max),
        }
        self._written: Fence | None = None
        self._batch = TransactionalBatch(
            writer_name(job, topic),
            topic=topic,
            bootstrap=bootstrap,
            producer_config=self._producer_config,
            timeout_s=timeout_s,
        )

    def applied(self) -> Fence | None:
        """The last batch that was started. If tasks wrote it, some may have failed: it must be written again."""
        return self._batch.applied()

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, refuse: Refuse) -> int:
        if self._is_written(fence):
            return 0
        if self._is_begun_by_tasks(fence):
            raise BadSink(
                f"batch {fence.batch_id} of {self._topic} was begun by tasks, and must be ended by tasks",
                hint="start the job again as it was",
            )
        with self._batch.transaction(fence) as producer:
            written, refused = topic_task.write_rows(producer, self._topic, rows, self._message_bytes_max)
            if refused:
                refuse([row for answer in refused for row in _refused_rows(answer.to_pylist())])
        return written

    def write(self, batch: DataFrame, fence: Fence, refuse: Refuse) -> int:
        if self._is_written(fence):
            return 0
        if not self._is_begun_by_tasks(fence) and _input_rows(fence) <= self._driver_rows_max:
            rows = _collect(batch)
            if rows is not None:
                return self.apply(rows, fence, refuse)
        return self._write_by_tasks(batch, fence, refuse)

    def clear(self) -> None:
        """Delete all records of the topic, also those of other writers."""
        empty_topic(self._cluster, self._topic)
        self._written = None
        self._batch.clear()  # last: after a crash in between, the fence is still there

    def close(self) -> None:
        self._batch.close()

    # By tasks

    def _write_by_tasks(self, batch: DataFrame, fence: Fence, refuse: Refuse) -> int:
        answers = self._tasks(batch, fence, leaves_out_refused=False)
        tasks = answers._jdf.queryExecution().toRdd().getNumPartitions()
        self._begin_by_tasks(fence, tasks)
        lines = _lines(answers)
        refused = _refused_rows(lines)
        if refused:
            refuse(refused)
            lines += _lines(self._tasks(batch, fence, leaves_out_refused=True))
        self._written = fence
        return sum(line["written"] or 0 for line in lines)

    def _tasks(self, batch: DataFrame, fence: Fence, *, leaves_out_refused: bool) -> DataFrame:
        plan = topic_task.TaskPlan(
            writer=self._batch.writer,
            topic=self._topic,
            bootstrap=self._bootstrap,
            config={},
            producer_config=self._producer_config,
            timeout_s=self._timeout_s,
            message_bytes_max=self._message_bytes_max,
            job=fence.job,
            checkpoint=fence.checkpoint,
            batch_id=fence.batch_id,
            leaves_out_refused=leaves_out_refused,
        )
        return batch.mapInArrow(functools.partial(topic_task.write_part, plan), topic_task.ANSWER_COLUMNS)

    def _begin_by_tasks(self, fence: Fence, tasks: int) -> None:
        if not self._is_begun_by_tasks(fence):
            with self._batch.transaction(fence, marks={_BY_TASKS: tasks}):
                return
        begun = self._batch.marks_kept()[_BY_TASKS]
        if begun != tasks:
            raise BadSink(
                f"batch {fence.batch_id} of {self._topic} was begun by {begun} tasks, and now has {tasks}: "
                "its rows would not meet the fences of their tasks",
                hint="start the job with the number of partitions that it had before; change it afterwards",
            )

    # The fence

    def _is_begun_by_tasks(self, fence: Fence) -> bool:
        """Whether tasks of this very batch may have written already, and others not."""
        applied = self._batch.applied()
        is_this_one = applied is not None and applied.covers(fence) and applied.batch_id == fence.batch_id
        return is_this_one and _BY_TASKS in self._batch.marks_kept()

    def _is_written(self, fence: Fence) -> bool:
        """A batch is started when all batches before it are complete."""
        if self._written is not None and self._written.covers(fence):
            return True
        applied = self._batch.applied()
        return applied is not None and applied.covers(fence) and not self._is_begun_by_tasks(fence)


def _collect(batch: DataFrame) -> list[pa.RecordBatch] | None:
    """The rows on the driver; None if Spark finds them too many. A few input rows can close a million windows."""
    try:
        return collect(batch)
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def _lines(answers: DataFrame) -> list[dict[str, Any]]:
    """What the tasks answer, when they have done it."""
    return [line for batch in collect(answers) for line in batch.to_pylist()]


def _refused_rows(lines: Iterable[Mapping[str, Any]]) -> list[RefusedRow]:
    return [
        RefusedRow(
            row={"key": _text(line["key"]), "value": _text(line["value"])},
            reason=line["reason"],
            headers=tuple((each["key"], each["value"]) for each in line["headers"] or ()),
        )
        for line in lines
        if line["reason"] is not None
    ]


def _text(content: bytes | None) -> str | bytes | None:
    """For people to read, where it can be read."""
    try:
        return None if content is None else bytes(content).decode()
    except UnicodeDecodeError:
        return content


def _input_rows(fence: Fence) -> float:
    """How many records a batch reads at most, by the offsets of its topics; infinity if its sources do not tell."""
    if not fence.ends or len(fence.starts) != len(fence.ends):
        return float("inf")
    try:
        return sum(_records(start, end) for start, end in zip(fence.starts, fence.ends, strict=True))
    except (ValueError, AttributeError, TypeError, KeyError):
        return float("inf")


def _records(start: str, end: str) -> int:
    """Between two positions in Spark's notation for Kafka: `{"clicks":{"0":12}}`. A new partition begins at 0."""
    if end == "-" or start == end:
        return 0
    before, after = json.loads(start), json.loads(end)
    return sum(
        int(offset) - int(before.get(topic, {}).get(partition, 0))
        for topic, partitions in after.items()
        for partition, offset in partitions.items()
    )
