"""The folder of one partition: where its files are, the settings of its topic, and whether it accepts writes."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping

from headrace.clock import Clock
from headrace.log.config import LogConfig
from headrace.log.damage import Damage
from headrace.log.errors import LogReadOnly, StorageFailed
from headrace.log.filesystem import FileSystem, OpenFile

logger = logging.getLogger(__name__)

EventSink = Callable[[str, Mapping[str, object]], None]
"""Called with the name of an event and its fields: what an operator should find in the broker's log."""


def log_event(name: str, fields: Mapping[str, object]) -> None:
    """The default sink: a line in Python's logging."""
    logger.warning(name, extra=dict(fields))


class PartitionFolder:
    """Shared by the parts of a log. Only the log's own thread changes it."""

    def __init__(
        self,
        path: str,
        config: LogConfig,
        *,
        files: FileSystem,
        clock: Clock,
        on_event: EventSink = log_event,
    ) -> None:
        self.path = path
        self.config = config
        self.files = files
        self.clock = clock
        self.on_event = on_event
        self.read_only_reason: str | None = None
        """Why the log rejects writes; None while it accepts them."""
        self.damages: tuple[Damage, ...] = ()
        self.is_new = False
        """Whether the log has no segments yet: the next flush syncs the name of the folder, too."""
        self.names_changed = 0
        """Grows when files are created, renamed or removed: the next flush syncs the folder, too."""

    def file_path(self, name: str) -> str:
        return os.path.join(self.path, name)

    def open(self) -> OpenFile:
        """The folder itself, for `sync_names`."""
        return OpenFile(self.files, self.path, self.files.open_directory(self.path))

    def become_read_only(self, reason: str) -> None:
        if self.read_only_reason is None:
            self.read_only_reason = reason
            self.on_event("log_read_only", {"path": self.path, "reason": reason})

    def read_only_error(self) -> LogReadOnly:
        hint = "see the broker's log for the first error of this disk; restart the broker after fixing it"
        if self.damages:
            hint = f"stop the broker and run `headrace log repair {self.path}`; reads continue to work"
        return LogReadOnly(f"{self.path} is read-only: {self.read_only_reason}", hint=hint)

    def storage_failed(self, message: str) -> StorageFailed:
        """Report a failed write as an event; the error for the caller to raise."""
        self.on_event("storage_failed", {"path": self.path, "reason": message})
        return StorageFailed(message, hint="free disk space, or replace the disk; nothing was acknowledged")
