"""The run of a job over bounded rows: they are one batch, written once."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING

from headrace.pipeline.checkpoint import NO_OFFSET
from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence
from headrace.pipeline.run.recovery import BOUNDED_PREFIX
from headrace.pipeline.run.supervisor import Run
from headrace.pipeline.source.bad_counts import bad_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline.checkpoint import Checkpoint
    from headrace.pipeline.letters.dead_letters import DeadLetters
    from headrace.pipeline.report.reporter import OnProgress
    from headrace.pipeline.sinks.sink import Sink


class BoundedRun(Run):
    """Writes in a thread of its own. A retry has the same fence, so that nothing is written twice."""

    def __init__(
        self,
        rows: DataFrame,
        sink: Sink,
        *,
        checkpoint: Checkpoint,
        letters: DeadLetters,
        is_rebuild: bool,
    ) -> None:
        self._job = letters.job
        self._rows = rows
        self._sink = sink
        self._native = sink.native()
        self._checkpoint = checkpoint
        self._letters = letters
        self._is_rebuild = is_rebuild
        spans = [source.span or (NO_OFFSET, NO_OFFSET) for source in letters.sources]
        self._fence = Fence(
            job=self._job,
            checkpoint=f"{BOUNDED_PREFIX}{uuid.uuid4()}",
            batch_id=0,
            starts=tuple(start for start, _ in spans),
            ends=tuple(end for _, end in spans),
        )
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._rows_written = 0

    def check(self) -> tuple[str, ...]:
        if self._checkpoint.identity() is not None:
            raise BadJob(
                f"job {self._job} has a checkpoint of a stream, whose fence a bounded run would overwrite",
                hint="give the bounded job another name, or `headrace job reset` the stream",
            )
        return ()

    def start(self, on_progress: OnProgress) -> str:
        self._failure = None
        self._thread = threading.Thread(target=self._write, name=f"headrace-bounded-{self._job}", daemon=True)
        self._thread.start()
        self.is_started = True
        return ""

    def _write(self) -> None:
        try:
            if self._native is None:
                self._write_with_sink()
            else:
                write = self._rows.write.format(self._native.format).options(**self._native.options)
                write.mode("append").save()
            self._write_letters()
        except Exception as error:
            self._failure = error

    def _write_with_sink(self) -> None:
        writer = self._sink.open(self._job, self._rows.schema)
        try:
            if self._is_rebuild:
                writer.clear()
            self._is_rebuild = False
            self._rows_written += writer.write(
                self._rows, self._fence, lambda rejected: self._letters.of_rejected(rejected, self._fence)
            )
        finally:
            writer.close()

    def _write_letters(self) -> None:
        counts = {spec.bad_metric: bad_count(spec) for spec in self._letters.all_specs if spec.can_have_bad}
        known = {name: count for name, count in counts.items() if count is not None}
        if len(known) == len(counts):
            self._letters.of_counts(known, self._fence)
        else:  # the counts are unknown: check all records
            self._letters.of_replay(self._fence)

    def identity(self) -> str | None:
        return self._fence.checkpoint

    def await_end(self, timeout_s: float) -> bool:
        assert self._thread is not None
        self._thread.join(timeout_s)
        if self._failure is not None:
            raise self._failure
        return not self._thread.is_alive()

    def drain(self, timeout_s: float) -> None:
        """Bounded rows are one batch: wait for its end."""
        self.await_end(timeout_s)

    def written(self) -> dict[str, int]:
        written = {"dead_letters": self._letters.written, "bad_rows": self._letters.bad_rows}
        if self._native is None:
            written["rows_out"] = self._rows_written
        return written

    def abandon(self) -> None:
        self.is_started = False

    def close(self) -> None:
        self._letters.close()
