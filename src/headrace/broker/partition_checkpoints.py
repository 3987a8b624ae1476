"""The checkpoints of all partitions: where each log starts, how much of it is known to be on disk, and the clean stop.

They decide what a start has to read: nothing after a clean stop; after a crash, what follows the recovery points.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from headrace.log import checkpoints
from headrace.log.checkpoints import CleanStop, LogCheckpoint
from headrace.log.errors import InvalidFile
from headrace.log.filesystem import FileSystem

logger = logging.getLogger(__name__)

PartitionName = tuple[str, int]


class PartitionCheckpoints:
    def __init__(self, files: FileSystem, data_dir: str) -> None:
        self._files = files
        self._data_dir = data_dir
        self._recovery_offsets: checkpoints.OffsetsByPartition = {}
        self._start_offsets: checkpoints.OffsetsByPartition = {}
        self._clean_stops: dict[PartitionName, CleanStop] | None = {}
        # Deleted, and perhaps still in the files: a new partition of that name must not inherit the offsets.
        self._stale: set[PartitionName] = set()

    def load(self) -> None:
        self._recovery_offsets = self._read(checkpoints.RECOVERY_POINT_NAME)
        self._start_offsets = self._read(checkpoints.LOG_START_NAME)
        try:
            self._clean_stops = checkpoints.take_clean_shutdown_mark(self._files, self._data_dir)
        except InvalidFile as error:
            logger.warning(
                "the mark of the last stop is damaged, all logs are checked", extra={"reason": str(error)}
            )
            self._clean_stops = None
        stops = self._clean_stops or {}
        ends = {name: stop.end_offset for name, stop in stops.items()}
        starts = {name: stop.start_offset for name, stop in stops.items()}
        if stops and (ends, starts) != (self._recovery_offsets, self._start_offsets):
            # A file was damaged since. It is written again, because the mark exists no longer.
            self._recovery_offsets, self._start_offsets = ends, starts
            self.write()

    def loaded(self) -> None:
        """All logs are open: partitions from now on are new."""
        self._clean_stops = {}

    def get(self, name: PartitionName) -> LogCheckpoint:
        return LogCheckpoint(
            was_clean=self._clean_stops is not None,
            clean_stop=(self._clean_stops or {}).get(name),
            recovery_offset=self._recovery_offsets.get(name, 0),
            start_offset=self._start_offsets.get(name),
        )

    def names(self) -> set[PartitionName]:
        return {*self._recovery_offsets, *self._start_offsets}

    def put(self, name: PartitionName, *, start_offset: int, recovery_offset: int | None = None) -> None:
        self._start_offsets[name] = start_offset
        if recovery_offset is not None:
            self._recovery_offsets[name] = recovery_offset

    def forget(self, name: PartitionName) -> None:
        self._recovery_offsets.pop(name, None)
        self._start_offsets.pop(name, None)
        self._stale.add(name)

    def prepare(self, name: PartitionName) -> None:
        """Before a new partition is created: the files must not have offsets of a deleted one of the same name."""
        if name in self._stale:
            self.write()

    def write(self) -> None:
        for file_name, offsets in (
            (checkpoints.RECOVERY_POINT_NAME, self._recovery_offsets),
            (checkpoints.LOG_START_NAME, self._start_offsets),
        ):
            checkpoints.write_offsets(self._files, os.path.join(self._data_dir, file_name), offsets)
        self._stale.clear()

    def mark_clean_stop(self, stops: Mapping[PartitionName, CleanStop]) -> None:
        checkpoints.mark_clean_shutdown(self._files, self._data_dir, stops)

    def _read(self, file_name: str) -> checkpoints.OffsetsByPartition:
        try:
            return checkpoints.read_offsets(self._files, os.path.join(self._data_dir, file_name))
        except InvalidFile as error:
            logger.warning("checkpoint ignored, logs are read from their start", extra={"reason": str(error)})
            return {}
