"""The run of a stream: checkpoint, writer and query are opened in this order, and closed in reverse.

`supervisor` decides when.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.clock import SystemClock
from headrace.pipeline.graph import plan as plans
from headrace.pipeline.letters.after_commit import LettersAfterCommit
from headrace.pipeline.report.registry import PLAN_FILE, DeletedCheckpoints
from headrace.pipeline.report.reporter import await_events, listener_of
from headrace.pipeline.run import recovery
from headrace.pipeline.run.batch_step import BatchStep
from headrace.pipeline.run.recovery import Decision, Found, Way
from headrace.pipeline.run.replay_watermark import ReplayWatermark
from headrace.pipeline.run.supervisor import Run
from headrace.pipeline.source.idle_watch import IdleWatch
from headrace.pipeline.source.positions import TopicsOnBroker
from headrace.plan_names import BATCH_WATERMARK, CHECKPOINT_FOLDER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from headrace.pipeline.answering.answer_thread import Answering
    from headrace.pipeline.checkpoint import Checkpoint
    from headrace.pipeline.graph.plan import Plan
    from headrace.pipeline.letters.dead_letters import DeadLetters
    from headrace.pipeline.letters.late_rows import LateRows
    from headrace.pipeline.report.registry import JobFolder
    from headrace.pipeline.report.reporter import OnProgress
    from headrace.pipeline.sinks.sink import Sink, SinkWriter

logger = logging.getLogger("headrace.pipeline")

COMMIT_S_MAX = 10.0
"""Spark commits a written batch within milliseconds, unless the disk has a problem."""

STOP_LOOK_S = 0.01

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
POLICY_SETTING = "spark.sql.streaming.multipleWatermarkPolicy"
CHECKPOINT_FILES_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
REMOTE_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
"""It replaces files atomically in HDFS, where Spark's other way renames nothing to a file that exists."""

_SETTINGS_LOCK = threading.Lock()
"""Jobs share a session, and start in different threads."""


class StreamRun(Run):
    """Starts the query of a job, any number of times in sequence."""

    def __init__(
        self,
        rows: DataFrame,
        sink: Sink,
        *,
        plan: Plan,
        folder: JobFolder,
        checkpoint: Checkpoint,
        letters: DeadLetters,
        late_rows: LateRows,
        output_mode: str,
        trigger: Mapping[str, Any],
        is_rebuild: bool,
        until: tuple[str, ...] | None = None,
        answering: Answering | None = None,
    ) -> None:
        self._job = letters.job
        self._rows = rows
        self._spark = rows.sparkSession
        self._sink = sink
        self._native = sink.native()
        self._plan = plan
        self._folder = folder
        self._checkpoint = checkpoint
        self._letters = letters
        self._late_rows = late_rows
        self._output_mode = output_mode
        self._trigger = trigger
        self._is_rebuild = is_rebuild
        self._until = until
        self._answering = answering
        self._last_batch: int | None = None
        self.ends_by_itself = "availableNow" in trigger
        self._writer: SinkWriter | None = None
        self._step: BatchStep | None = None
        self._rows_before = 0
        self._idle = IdleWatch(self._job, letters.specs, checkpoint.reopened())
        self._letters_after_commit: LettersAfterCommit | None = None

    def check(self) -> tuple[str, ...]:
        """Raise if the checkpoint does not fit the plan. Returns notes on harmless changes."""
        before = plans.saved_steps(self._folder.folder, PLAN_FILE)
        if before is None or self._is_rebuild or self._checkpoint.identity() is None:
            return ()
        return plans.check_fits(self._job, before, self._plan.steps)

    def start(self, on_progress: OnProgress) -> str:
        """Start the query from the checkpoint, or the fence of the target. Returns a note unless it simply resumes."""
        for spec in self._letters.specs:
            TopicsOnBroker(spec).require_topics()
        decision = Decision(way=Way.RESUME)
        if self._native is None:
            self._writer = self._sink.open(self._job, self._rows.schema)
            decision = self._recover(self._writer)
        elif self._is_rebuild:
            self._checkpoint.remove()
            decision = Decision(way=Way.REBUILD, note="Spark writes this target itself: it was not cleared")
        self._checkpoint.remove_leftovers()
        if self._until is not None:
            self._last_batch = self._checkpoint.plan_until(self._until, now_ms=SystemClock().now_ms())
        if self._native is not None and self._letters.can_have_bad:
            self._letters_after_commit = LettersAfterCommit(self._checkpoint, self._letters)
            self._letters_after_commit.start()
        # After this a failure must not clear the target again: it contains rows of this run.
        self._is_rebuild = False
        self._plan.save(self._folder.folder, PLAN_FILE)
        if not self.ends_by_itself:
            self._idle.begin()
        listener = listener_of(self._spark)
        if self._answering is not None:
            self._answering.prepare()
        with self._answering.state.copied() if self._answering is not None else contextlib.nullcontext():
            self.query = self._start_query()
        listener.watch(str(self.query.runId), functools.partial(self._follow, on_progress))
        self.is_started = True
        if self._answering is not None:
            self._answering.start()
        return decision.note

    def _follow(self, on_progress: OnProgress, progress: Mapping[str, Any]) -> None:
        """If Spark writes the target, the dead letters are written after the commit."""
        on_progress(progress)
        if self._letters_after_commit is not None:
            self._letters_after_commit.follow(progress)

    def _recover(self, writer: SinkWriter) -> Decision:
        deleted = self._folder.deleted_checkpoints()
        found = Found.at(self._checkpoint, writer.applied())
        decision = recovery.decide(
            self._job,
            found,
            is_stateful=self._plan.is_stateful,
            reads_files=bool(self._letters.file_specs),
            deleted=deleted,
            is_rebuild=self._is_rebuild,
        )
        if decision.way is Way.REBUILD:
            self._checkpoint.remove()
            writer.clear()
        elif decision.way is Way.RESTORE:
            assert found.fence is not None
            # The only setting that Spark requires: it compares the values of two batches.
            conf = {SHUFFLE_PARTITIONS: str(self._spark.conf.get(SHUFFLE_PARTITIONS))}
            self._checkpoint.restore(found.fence, conf=conf, now_ms=SystemClock().now_ms())
        elif decision.way is Way.START and deleted.clear_target:
            writer.clear()
        if deleted.clear_target:
            self._folder.note_deleted(DeletedCheckpoints(checkpoints=deleted.checkpoints))
        return decision

    def _start_query(self) -> StreamingQuery:
        stream = (
            self._rows.writeStream.queryName(self._job)
            .outputMode(self._output_mode)
            .option("checkpointLocation", self._checkpoint.folder.address)
            .trigger(**self._trigger)
        )
        if self._native is not None:
            with self._session_settings(), self._known_checkpoint():
                return stream.format(self._native.format).options(**self._native.options).start()
        assert self._writer is not None
        self._step = BatchStep(
            spark=self._spark,
            writer=self._writer,
            checkpoint=self._checkpoint.reopened(),
            letters=self._letters,
            late_rows=self._late_rows,
            replayed_batch=self._replayed_batch(),
            watermark_columns=[
                column.name for column in self._rows.schema if BATCH_WATERMARK in column.metadata
            ],
            replay=self._replay_watermark(),
            last_batch=self._last_batch,
        )
        with self._late_rows.collected(self._spark), self._session_settings(), self._known_checkpoint():
            query = _with_step(stream, self._step).start()
        self._step.set_query(query)
        return query

    def _replay_watermark(self) -> ReplayWatermark | None:
        """With the policy `max`, the user wants the watermark of the fastest source."""
        is_watermarked = any(spec.watermark is not None for spec in self._letters.specs)
        if not is_watermarked or "max" in self._plan.watermark_policies:
            return None
        return ReplayWatermark(self._spark, self._letters.specs)

    @contextlib.contextmanager
    def _session_settings(self) -> Iterator[None]:
        """For a query that is started inside: Spark reads these settings from the session and keeps them."""
        wanted: dict[str, str] = {}
        for policy in self._plan.watermark_policies:
            wanted[POLICY_SETTING] = policy
        if self._checkpoint.folder.path is None:
            wanted[CHECKPOINT_FILES_SETTING] = REMOTE_CHECKPOINT_FILES
        conf = self._spark.conf
        with _SETTINGS_LOCK:
            before = {name: conf.get(name, None) for name in wanted}
            for name, text in wanted.items():
                conf.set(name, text)
            try:
                yield
            finally:
                for name, earlier in before.items():
                    if earlier is None:
                        conf.unset(name)
                    else:
                        conf.set(name, earlier)

    @contextlib.contextmanager
    def _known_checkpoint(self) -> Iterator[None]:
        """The tasks of a query that is started inside know its checkpoint, if they can read it as a folder."""
        path = self._checkpoint.folder.path
        if path is None:
            yield
            return
        context = self._spark.sparkContext
        context.setLocalProperty(CHECKPOINT_FOLDER, str(path))
        try:
            yield
        finally:
            context.setLocalProperty(CHECKPOINT_FOLDER, None)  # type: ignore[arg-type]  # that removes it

    def _replayed_batch(self) -> int | None:
        """The batch that was planned and not committed when the job last ended."""
        planned = self._checkpoint.planned_batch()
        return planned if planned != self._checkpoint.committed_batch() else None

    def identity(self) -> str | None:
        return self._checkpoint.identity()

    def await_end(self, timeout_s: float) -> bool:
        """Whether the query has ended. Raises its failure."""
        assert self.query is not None
        is_over = bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # it accepts fractions of seconds
        if self._letters_after_commit is None:
            return is_over
        if is_over:
            await_events(self._spark)
            return self._letters_after_commit.end(timeout_s)
        self._letters_after_commit.raise_failure()
        return False

    def drain(self, timeout_s: float) -> None:
        """Stop between two batches."""
        assert self.query is not None
        deadline_s = time.monotonic() + timeout_s
        if self._step is not None:
            self._step.close(timeout_s)
            self._await_commit(self._step, deadline_s)
        elif "realTime" not in self._trigger:
            while self.query.status["isTriggerActive"] and time.monotonic() < deadline_s:
                time.sleep(STOP_LOOK_S)
        self.query.stop()
        self._end_letters(deadline_s)

    def _end_letters(self, deadline_s: float) -> None:
        if self._letters_after_commit is None:
            return
        await_events(self._spark)
        try:
            is_done = self._letters_after_commit.end(max(0.0, deadline_s - time.monotonic()))
        except Exception as error:
            logger.warning("job %s: dead letters were not written: %s", self._job, error)
            is_done = False
        if not is_done:
            logger.warning("job %s: the next start writes the missing dead letters", self._job)

    def _await_commit(self, step: BatchStep, deadline_s: float) -> None:
        is_committed = self._checkpoint.is_committed
        deadline_s = min(deadline_s, time.monotonic() + COMMIT_S_MAX)
        while step.last_written is not None and not is_committed(step.last_written):
            if time.monotonic() > deadline_s or step.failure is not None:
                return
            time.sleep(STOP_LOOK_S)

    def is_complete(self) -> bool:
        return self._last_batch is not None and self._checkpoint.is_committed(self._last_batch)

    def cause_of(self, error: Exception) -> Exception:
        """The original error of Headrace or the sink, instead of Spark's report of it."""
        failure = self._step.failure if self._step is not None else None
        return failure or error

    def written(self) -> dict[str, int]:
        written = {"dead_letters": self._letters.written, "late_rows_kept": self._late_rows.written}
        if self._native is None:
            written["bad_rows"] = self._letters.bad_rows
            in_this_run = self._step.rows_written if self._step is not None else 0
            written["rows_out"] = self._rows_before + in_this_run
        return written

    def abandon(self) -> None:
        if self._answering is not None:
            self._answering.stop(is_final=False)
        self._unwatch()
        if self.query is not None and self.query.isActive:
            self.query.stop()
        self.is_started = False
        self._rows_before = self.written().get("rows_out", 0)
        self._step = None
        self._release()

    def close(self) -> None:
        if self._answering is not None:
            self._answering.stop()
        self._unwatch()
        self._release()
        self._letters.close()

    def _unwatch(self) -> None:
        if self.query is not None:
            await_events(self._spark)
            listener_of(self._spark).unwatch(str(self.query.runId))

    def _release(self) -> None:
        """Close everything that a start opens, except the query."""
        self._idle.end()
        letters, self._letters_after_commit = self._letters_after_commit, None
        if letters is not None:
            letters.abandon()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _with_step(stream: DataStreamWriter, step: BatchStep) -> DataStreamWriter:
    """Like `stream.foreachBatch(…)`, which would create a Python session object for every batch.

    The callback server runs already: the listener of the session has started it.
    """
    gateway = stream._spark.sparkContext._gateway
    assert gateway is not None
    sources = gateway.jvm.org.apache.spark.sql.execution.streaming.sources
    sources.PythonForeachBatchHelper.callForeachBatch(stream._jwrite, step)
    return stream
