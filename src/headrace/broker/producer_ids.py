"""Ids of idempotent producers: each is allocated once, also across restarts.

A block of ids is reserved on disk before the first of them is allocated; what a crash leaves of a block is skipped.
"""

from __future__ import annotations

import logging
import os

from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed
from headrace.log.filesystem import FileSystem

logger = logging.getLogger(__name__)

BLOCK_IDS = 1_000


class ProducerIds:
    def __init__(self, files: FileSystem, data_dir: str) -> None:
        self._files = files
        self._path = os.path.join(data_dir, "metadata", "next-producer-id")
        self._next = self._reserved = self._read()

    def allocate(self) -> int:
        if self._next == self._reserved:
            self._reserve()
        producer_id = self._next
        self._next += 1
        return producer_id

    def skip_past(self, used_id: int) -> None:
        """Never allocate an id that a log has: the records of its new producer would look like duplicates."""
        if used_id >= self._reserved:
            logger.warning(
                "the next producer id was lost, and is restored from the logs",
                extra={"path": self._path, "next_id": used_id + 1},
            )
            self._next = self._reserved = used_id + 1

    def _reserve(self) -> None:
        try:
            self._files.write_whole(self._path, f"{self._reserved + BLOCK_IDS}\n".encode())
        except OSError as error:
            raise StorageFailed(
                f"{self._path} can't be written: {error}", hint="free disk space; clients retry"
            ) from error
        self._reserved += BLOCK_IDS

    def _read(self) -> int:
        try:
            return int(self._files.read_whole(self._path))
        except FileNotFoundError:
            return 0
        except ValueError as error:
            raise HeadraceError(
                f"{self._path} is damaged: {error}",
                hint="write a number into it that is larger than any producer id in use",
            ) from error
