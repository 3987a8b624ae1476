"""The step of a job for each micro-batch: create the fence, write the batch, let Spark commit.

Spark calls it through py4j for every batch, so it does as little as possible: it reads one small file, the sink writes,
and it reads one text from the JVM. Progress is reported elsewhere, after the commit.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.pipeline import points
from headrace.plan_names import BAD_METRIC, metric_without_use

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.pipeline.checkpoint import Checkpoint
    from headrace.pipeline.fence import Fence
    from headrace.pipeline.letters.dead_letters import DeadLetters
    from headrace.pipeline.letters.late_rows import LateRows
    from headrace.pipeline.run.replay_watermark import ReplayWatermark
    from headrace.pipeline.sinks.sink import SinkWriter


_COUNTS = re.compile(rf"({re.escape(BAD_METRIC)}[\w@]+) -> \[(\d+)[,\]]")
"""The count is the first value of the metric of a source."""


class JobStopping(Exception):
    """Not a failure: the job is stopping and accepts no further batch."""


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """py4j logs every exception that it passes to the JVM; a stop is not worth a line."""
    return not (record.exc_info and isinstance(record.exc_info[1], JobStopping))


logging.getLogger("py4j.clientserver").addFilter(_is_worth_a_line)


def bad_counts(observed: str) -> dict[str, int]:
    """How many records each source could not parse, from the text of the observed metrics of a batch."""
    return {metric_without_use(name): int(count) for name, count in _COUNTS.findall(observed)}


class BatchStep:
    """Spark's foreachBatch function for one run of one query."""

    def __init__(
        self,
        *,
        spark: SparkSession,
        writer: SinkWriter,
        checkpoint: Checkpoint,
        letters: DeadLetters,
        late_rows: LateRows,
        replayed_batch: int | None,
        watermark_columns: Sequence[str],
        replay: ReplayWatermark | None = None,
        last_batch: int | None = None,
    ) -> None:
        self._job = letters.job
        self._spark = spark
        self._writer = writer
        self._checkpoint = checkpoint
        self._letters = letters
        self._late_rows = late_rows
        self._replayed_batch = replayed_batch
        self._watermark_columns = watermark_columns
        self._replay = replay
        self._last_batch = last_batch
        self._query: Any = None
        self._has_query = threading.Event()
        self._batch_session: SparkSession | None = None
        self._gate = threading.Lock()
        self._is_closed = False
        self.last_written: int | None = None
        self.rows_written = 0
        self.failure: Exception | None = None

    def call(self, jdf: Any, batch_id: int) -> None:
        """Spark calls it in the thread of its callback connection."""
        with self._gate:
            if self._is_closed or (self._last_batch is not None and batch_id > self._last_batch):
                raise JobStopping(f"job {self._job} is stopping")
            try:
                self._run(self._data_frame(jdf), batch_id)
            except Exception as error:
                self.failure = error
                raise

    def set_query(self, query: StreamingQuery) -> None:
        """Set the query of this step. Its first batch may have started before."""
        self._query = query._jsq.streamingQuery()
        self._has_query.set()

    def close(self, timeout_s: float) -> None:
        """Accept no other batch, and wait for the batch in flight."""
        self._is_closed = True
        if self._gate.acquire(timeout=timeout_s):
            self._gate.release()

    def _run(self, rows: DataFrame, batch_id: int) -> None:
        fence = self._checkpoint.fence(self._job, batch_id)
        points.reached("before-write", job=self._job)
        self.rows_written += self._writer.write(
            self._with_watermark(rows, batch_id),
            fence,
            lambda rejected: self._letters.of_rejected(rejected, fence),
        )
        points.reached("before-letters", job=self._job)
        self._late_rows.of_batch(fence)
        self._write_letters(fence)
        if self._replay is not None:
            self._has_query.wait()
            self._replay.after_batch(self._query, fence)
        points.reached("after-write", job=self._job)
        self.last_written = batch_id

    def _with_watermark(self, rows: DataFrame, batch_id: int) -> DataFrame:
        watermark_ms = self._checkpoint.watermark_ms(batch_id) if self._watermark_columns else None
        if watermark_ms is None:
            return rows
        from pyspark.sql import functions as F

        watermark = F.timestamp_millis(F.lit(watermark_ms))
        return rows.withColumns(
            {name: F.coalesce(F.col(f"`{name}`"), watermark) for name in self._watermark_columns}
        )

    def _write_letters(self, fence: Fence) -> None:
        if fence.batch_id == self._replayed_batch:
            self._letters.of_replay(fence)
        elif self._letters.can_have_bad:
            self._has_query.wait()
            # One text, because every call is slow.
            observed = self._query.lastExecution().observedMetrics().toString()
            self._letters.of_counts(bad_counts(observed), fence)

    def _data_frame(self, jdf: Any) -> DataFrame:
        """The batch, with a session object that is created once for all batches."""
        from pyspark.sql import DataFrame, SparkSession

        if self._batch_session is None:
            self._batch_session = SparkSession(self._spark.sparkContext, jdf.sparkSession())
        return DataFrame(jdf, self._batch_session)

    class Java:
        implements = ("org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction",)
