"""The dead letters of a stream whose target Spark writes: they are written after its commits, and none is lost.

No code of Headrace runs in such a batch. So a thread follows the commits, and a file in the checkpoint contains the
last batch whose letters are all written. After a crash or an outage of the broker, the missing letters are read from
the source again, before the query starts and after it has ended. The fence of their own transaction identifies letters
that were written before a crash and are not in the file.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from headrace.pipeline import points
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.folders.folder import write_json
from headrace.pipeline.letters.dead_letters import DeadLetters
from headrace.pipeline.report.progress import bad_counts

logger = logging.getLogger("headrace.pipeline")

POSITION_FILE = "headrace-letters.json"
WRITE_S_MAX = 180.0
"""For the letters of one batch if the broker is unavailable: clients fail after a minute, and try to abort."""

NOTHING = -1
"""The batch before the first one."""


class Position(Struct, frozen=True, kw_only=True, rename={"batch_id": "batch"}):
    """All letters up to this batch, which ended at these offsets, are written."""

    batch_id: int = NOTHING
    ends: tuple[str, ...] = ()


class LettersAfterCommit:
    """Follows the commits of one run of a query; `catch_up` before and after it."""

    def __init__(self, checkpoint: Checkpoint, letters: DeadLetters) -> None:
        self._job = letters.job
        self._checkpoint = checkpoint.reopened()
        self._folder = checkpoint.folder
        self._letters = letters
        self._commits: queue.SimpleQueue[tuple[int, Mapping[str, int]] | None] = queue.SimpleQueue()
        """Committed batches with their counts of bad records; None ends the thread."""
        self._failure: Exception | None = None
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name=f"headrace-letters-{self._job}", daemon=True)

    def start(self) -> None:
        """Call it before the query starts: write the missing letters, and follow from there."""
        self.catch_up()
        self._thread.start()

    def follow(self, progress: Mapping[str, Any]) -> None:
        """Takes Spark's progress of a batch. Does not block."""
        batch_id = int(progress["batchId"])
        # Progress without rows may name a batch that has not run yet.
        if progress["numInputRows"] or self._checkpoint.is_committed(batch_id):
            self._commits.put((batch_id, bad_counts(progress)))

    def raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def end(self, timeout_s: float) -> bool:
        """Call it after the query has ended and its events have arrived: whether all of its letters are written."""
        self._commits.put(None)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self.raise_failure()
        self.catch_up()
        return True

    def abandon(self) -> None:
        """Stop after the current write. The next run catches up."""
        self._is_abandoned = True
        self._commits.put(None)
        if self._thread.is_alive():
            self._thread.join(WRITE_S_MAX)

    def catch_up(self) -> None:
        """Write the letters of all batches that are committed."""
        committed = self._checkpoint.committed_batch()
        if committed is not None:
            self._write(committed, None)

    def _run(self) -> None:
        try:
            while (commit := self._commits.get()) is not None and not self._is_abandoned:
                points.reached("before-letters", job=self._job)
                self._write(*commit)
        except Exception as error:
            logger.warning("job %s: dead letters were not written: %s", self._job, error)
            self._failure = error

    def _write(self, batch_id: int, counts: Mapping[str, int] | None) -> None:
        """Write all letters between the position and the end of this batch. `counts` are those of this batch."""
        position = self._position()
        if batch_id <= position.batch_id:
            return
        try:
            fence = self._checkpoint.fence_since(position.ends, self._job, batch_id)
        except FileNotFoundError:  # Spark has deleted the offsets: a later batch includes them
            return
        if counts is not None and batch_id == position.batch_id + 1:
            self._letters.of_counts(counts, fence)
        else:
            self._letters.of_replay(fence)
        points.reached("after-letters", job=self._job)
        write_json(self._folder, POSITION_FILE, Position(batch_id=batch_id, ends=fence.ends))

    def _position(self) -> Position:
        """Without a file, the beginning: the fence of the letters' own transaction identifies written ones."""
        try:
            return msgspec.json.decode(self._folder.read(POSITION_FILE), type=Position)
        except FileNotFoundError:
            return Position()
        except msgspec.DecodeError:
            logger.warning(
                "job %s: %s/%s is damaged; all letters are checked again",
                self._job,
                self._folder.address,
                POSITION_FILE,
            )
            return Position()
