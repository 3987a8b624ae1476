"""Upkeep of a Delta table: small files become big ones, beside the batches and never two at a time.

A streaming job adds at least one file a batch. Compaction rewrites small files in a thread of its own; its
result is one commit, so that a crash never leaves half of it. If a batch changes the same files meanwhile, the
compaction fails and is retried later: batches have priority.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pyarrow
import pyarrow.compute
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

logger = logging.getLogger("headrace.pipeline")

LOOK_EVERY_BATCHES = 8
"""Looking at the list of all files costs a little; some batches more or less don't matter."""

TASKS_MAX = 1
"""Partitions that are compacted at the same time: this bounds the memory, and leaves the cores to the job."""

CLOSE_WAIT_S = 60.0
"""How long a job that ends waits for a compaction. A longer one is aborted, and leaves the table unchanged."""


class DeltaUpkeep:
    """Watches one table for one writer."""

    def __init__(
        self,
        *,
        open_table: Callable[[], DeltaTable],
        describe: Callable[[], dict[str, str]],
        files_max: int,
        file_bytes: int,
        keep_hours: int,
    ) -> None:
        self._open_table = open_table
        self._describe = describe
        self._files_max = files_max
        self._file_bytes = file_bytes
        self._keep_hours = keep_hours
        self._batches = 0
        self._running: threading.Thread | None = None

    def after_batch(self, table: DeltaTable) -> None:
        """Start a compaction if there are enough small files and none is under way."""
        self._batches += 1
        if not self._files_max or self._batches % min(LOOK_EVERY_BATCHES, self._files_max):
            return
        if self._running is not None and self._running.is_alive():
            return
        if small_files(table, self._file_bytes) >= self._files_max:
            self._running = threading.Thread(target=self._run, name="headrace-compaction", daemon=True)
            self._running.start()

    def _run(self) -> None:
        try:
            self._compact()
        except CommitFailedError:
            logger.info("compaction conflicted with a batch, and is retried later")
        except (DeltaError, OSError) as error:
            logger.warning("compaction failed, and is retried later: %s", error)

    def _compact(self) -> None:
        table = self._open_table()
        properties = CommitProperties(custom_metadata=dict(self._describe()))
        table.optimize.compact(
            target_size=self._file_bytes, max_concurrent_tasks=TASKS_MAX, commit_properties=properties
        )
        table.vacuum(
            retention_hours=self._keep_hours,
            dry_run=False,
            enforce_retention_duration=False,
            commit_properties=properties,
        )

    def close(self) -> None:
        if self._running is not None:
            self._running.join(CLOSE_WAIT_S)


def small_files(table: DeltaTable, file_bytes: int) -> int:
    """Files of the table that compaction would join with others."""
    actions = pyarrow.table(table.get_add_actions(flatten=True))
    sizes = actions["size_bytes"]
    return int(pyarrow.compute.sum(pyarrow.compute.less(sizes, file_bytes // 2)).as_py() or 0)
