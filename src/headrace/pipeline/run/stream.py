"""A stream's work in this process, without anybody watching it: checkpoint, writer, query, in that order and back.

`supervisor` decides when; here is how.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.clock import SystemClock
from headrace.pipeline.graph import plan
from headrace.pipeline.letters.behind import LettersBehind
from headrace.pipeline.report.registry import Forgotten
from headrace.pipeline.report.reporter import await_events
from headrace.pipeline.run import recovery
from headrace.pipeline.run.batch_step import WATERMARK_KEY, BatchStep, JobStopping
from headrace.pipeline.run.recovery import Decision, Found, Way
from headrace.pipeline.source.idle import IdleWatch

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.pipeline.job import Prepared
    from headrace.pipeline.sinks.sink import SinkWriter

logger = logging.getLogger("headrace.pipeline")

COMMIT_S_MAX = 10.0
"""Spark commits a written batch within milliseconds; a disk that takes longer has other troubles."""

STOP_LOOK_S = 0.01

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
POLICY_SETTING = "spark.sql.streaming.multipleWatermarkPolicy"
_POLICY_LOCK = threading.Lock()
"""Jobs share a session, and start in threads of their own."""


class StreamRun:
    """Begins the query of a job, any number of times one after the other."""

    def __init__(self, prepared: Prepared) -> None:
        self._prepared = prepared
        self.query: StreamingQuery | None = None
        self.is_begun = False
        self._is_rebuild = prepared.launch.rebuild
        self._writer: SinkWriter | None = None
        self._step: BatchStep | None = None
        self._rows_before = 0
        self._idle = IdleWatch(
            prepared.job.name,
            [source.spec for source in prepared.letters.sources if source.spec is not None],
            prepared.checkpoint.reopened(),
        )
        self._letters_behind: LettersBehind | None = None

    def check(self) -> tuple[str, ...]:
        """Raise if the checkpoint can't be gone on with; returns notes on what has changed otherwise."""
        prepared = self._prepared
        before = plan.saved_steps(prepared.folder.plan)
        if before is None or prepared.launch.rebuild or prepared.checkpoint.identity() is None:
            return ()
        return plan.check_fits(prepared.job.name, before, prepared.plan.steps)

    def begin(self) -> str:
        """Start the query where checkpoint and target say; returns a note if that was not plain resuming."""
        prepared = self._prepared
        decision = Decision(way=Way.RESUME)
        if prepared.native is None:
            self._writer = prepared.job.sink.open(prepared.job.name, prepared.rows.schema)
            decision = self._recover(self._writer)
        elif self._is_rebuild:
            prepared.checkpoint.remove()
            decision = Decision(
                way=Way.REBUILD, note="Spark writes this target by itself: it was not cleared"
            )
        if prepared.native is not None and prepared.letters.can_have_bad:
            self._letters_behind = LettersBehind(prepared.job.name, prepared.checkpoint, prepared.letters)
            self._letters_behind.begin()
        # From here on a failure must not clear the target again: what is in it now is this run's own.
        self._is_rebuild = False
        prepared.plan.save(prepared.folder.plan)
        if not self.ends_by_itself:
            self._idle.begin()
        self.query = self._start_query()
        self.is_begun = True
        return decision.note

    def _recover(self, writer: SinkWriter) -> Decision:
        prepared = self._prepared
        forgotten = prepared.folder.forgotten()
        found = Found.at(prepared.checkpoint, writer.applied())
        decision = recovery.decide(
            prepared.job.name,
            found,
            is_stateful=prepared.plan.is_stateful,
            forgotten=forgotten,
            is_rebuild=self._is_rebuild,
        )
        if decision.way is Way.REBUILD:
            prepared.checkpoint.remove()
            writer.clear()
        elif decision.way is Way.RESTORE:
            assert found.fence is not None
            # The one setting that Spark misses where it is not: it compares the numbers of two batches.
            conf = {SHUFFLE_PARTITIONS: str(prepared.spark.conf.get(SHUFFLE_PARTITIONS))}
            prepared.checkpoint.restore(found.fence, conf=conf, now_ms=SystemClock().now_ms())
        elif decision.way is Way.BEGIN and forgotten.clear_target:
            writer.clear()
        if forgotten.clear_target:
            prepared.folder.forget(Forgotten(checkpoints=forgotten.checkpoints))
        return decision

    def _start_query(self) -> StreamingQuery:
        prepared = self._prepared
        stream = (
            prepared.rows.writeStream.queryName(prepared.job.name)
            .outputMode(prepared.output_mode)
            .option("checkpointLocation", str(prepared.checkpoint.folder))
            .trigger(**prepared.trigger)
        )
        if prepared.native is not None:
            with self._watermark_policy():
                return stream.format(prepared.native.format).options(**prepared.native.options).start()
        assert self._writer is not None
        self._step = BatchStep(
            job=prepared.job.name,
            spark=prepared.spark,
            writer=self._writer,
            checkpoint=prepared.checkpoint.reopened(),
            letters=prepared.letters,
            late_rows=prepared.late_rows,
            replayed_batch=self._replayed_batch(),
            watermark_columns=[
                column.name for column in prepared.rows.schema if WATERMARK_KEY in column.metadata
            ],
        )
        with prepared.late_rows.told_to(prepared.spark), self._watermark_policy():
            query = _with_step(stream, self._step).start()
        self._step.know_query(query)
        return query

    @contextlib.contextmanager
    def _watermark_policy(self) -> Iterator[None]:
        """For a query that is started inside: Spark reads it from the session, and keeps it in the checkpoint."""
        conf = self._prepared.spark.conf
        with _POLICY_LOCK:
            before = conf.get(POLICY_SETTING, None)
            for policy in self._prepared.plan.watermark_policies:
                conf.set(POLICY_SETTING, policy)
            try:
                yield
            finally:
                if before is None:
                    conf.unset(POLICY_SETTING)
                else:
                    conf.set(POLICY_SETTING, before)

    def _replayed_batch(self) -> int | None:
        """The batch that was begun and not committed when the job ended last."""
        planned = self._prepared.checkpoint.planned_batch()
        return planned if planned != self._prepared.checkpoint.committed_batch() else None

    def identity(self) -> str | None:
        return self._prepared.checkpoint.identity()

    def await_end(self, timeout_s: float) -> bool:
        """Whether the query has ended; raises what it failed with."""
        assert self.query is not None
        is_over = bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # it takes parts of seconds
        if self._letters_behind is None:
            return is_over
        if is_over:
            await_events(self._prepared.spark)
            return self._letters_behind.end(timeout_s)
        self._letters_behind.raise_failure()
        return False

    def drain(self, timeout_s: float) -> None:
        """Stop between two batches."""
        assert self.query is not None
        deadline_s = time.monotonic() + timeout_s
        if self._step is not None:
            self._step.close(timeout_s)
            self._await_commit(self._step, deadline_s)
        elif self._prepared.job.mode != "realtime":
            while self.query.status["isTriggerActive"] and time.monotonic() < deadline_s:
                time.sleep(STOP_LOOK_S)
        self.query.stop()
        self._end_letters(deadline_s)

    def _end_letters(self, deadline_s: float) -> None:
        if self._letters_behind is None:
            return
        await_events(self._prepared.spark)
        try:
            is_done = self._letters_behind.end(max(0.0, deadline_s - time.monotonic()))
        except Exception as error:
            logger.warning("job %s: dead letters were not written: %s", self._prepared.job.name, error)
            is_done = False
        if not is_done:
            logger.warning(
                "job %s: the next start writes the dead letters that are missing", self._prepared.job.name
            )

    def _await_commit(self, step: BatchStep, deadline_s: float) -> None:
        is_committed = self._prepared.checkpoint.is_committed
        deadline_s = min(deadline_s, time.monotonic() + COMMIT_S_MAX)
        while step.last_written is not None and not is_committed(step.last_written):
            if time.monotonic() > deadline_s or step.failure is not None:
                return
            time.sleep(STOP_LOOK_S)

    @property
    def ends_by_itself(self) -> bool:
        return "availableNow" in self._prepared.trigger

    def cause_of(self, error: Exception) -> Exception:
        """The error of ours or of the sink's that made the query fail, rather than Spark's account of it."""
        failure = self._step.failure if self._step is not None else None
        if isinstance(failure, Exception) and not isinstance(failure, JobStopping):
            return failure
        return error

    def written(self) -> dict[str, int]:
        """What was written since the job was started, as its status calls it."""
        written = {
            "dead_letters": self._prepared.letters.written,
            "late_rows_kept": self._prepared.late_rows.written,
        }
        if self._prepared.native is None:
            written["bad_rows"] = self._prepared.letters.bad_rows
            written["rows_out"] = self._rows_before + (
                self._step.rows_written if self._step is not None else 0
            )
        return written

    def after_commit(self, told: Mapping[str, Any]) -> None:
        """Within the batch of a sink of Spark's own nothing of ours runs, so its letters are written behind it."""
        if self._letters_behind is not None:
            self._letters_behind.hear(told)

    def abandon(self) -> None:
        """After a failure: let go of everything that the next begin makes anew."""
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self._abandon_letters()
        self._idle.end()
        self.is_begun = False
        self._rows_before = self.written().get("rows_out", 0)
        self._step = None
        self._close_writer()

    def close(self) -> None:
        self._idle.end()
        self._abandon_letters()
        self._close_writer()
        self._prepared.letters.close()
        self._prepared.late_rows.close()

    def _abandon_letters(self) -> None:
        behind, self._letters_behind = self._letters_behind, None
        if behind is not None:
            behind.abandon()

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _with_step(stream: DataStreamWriter, step: BatchStep) -> DataStreamWriter:
    """As `stream.foreachBatch(…)`, which would make a session object of Python's for every batch."""
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = stream._spark.sparkContext._gateway
    assert gateway is not None
    sources = gateway.jvm.org.apache.spark.sql.execution.streaming.sources
    sources.PythonForeachBatchHelper.callForeachBatch(stream._jwrite, step)
    ensure_callback_server_started(gateway)
    return stream
