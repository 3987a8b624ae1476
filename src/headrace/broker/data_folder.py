"""The data folder: one broker at a time, a cluster id that stays, and a reserve of disk space.

The reserve is a file without meaning. A stop, and a start after a crash, remove it for their own small files
(checkpoints, indexes, epochs), so that a full disk prevents neither: only a broker that runs can free room by
retention.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import logging
import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem

logger = logging.getLogger(__name__)

RESERVE_NAME = ".reserve"
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")
"""16 bytes in base64, as Kafka writes ids."""


class DataFolder:
    def __init__(self, path: Path, files: FileSystem, *, reserve_bytes: int = 0) -> None:
        self.path = path
        self._files = files
        self._reserve_path = str(path / RESERVE_NAME)
        self._reserve_bytes = reserve_bytes
        try:
            files.make_directory(str(path / "metadata"))
        except OSError as error:
            raise HeadraceError(
                f"the data folder {path} can't be created: {error.strerror}",
                hint="choose another with --data-dir",
            ) from error
        self._lock = self._take_lock()
        try:
            self.cluster_id = self._cluster_id()
        except BaseException:
            self.release()
            raise

    def _take_lock(self) -> int:
        lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise HeadraceError(
                f"another broker is using the data folder {self.path}",
                hint="stop it first, or choose another folder with --data-dir",
            ) from None
        return lock

    def _cluster_id(self) -> str:
        path = str(self.path / "metadata" / "cluster-id")
        try:
            kept = self._files.read_whole(path).decode("ascii", "replace").strip()
        except FileNotFoundError:
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self._files.write_whole(path, f"{cluster_id}\n".encode())
            return cluster_id
        if not _CLUSTER_ID.fullmatch(kept):
            raise HeadraceError(
                f"{path} is damaged: it holds no cluster id",
                hint="restore this file from a copy; without one, remove it, and the broker creates another id",
            )
        return kept

    def take_reserve(self) -> None:
        """Reserve disk space, if it is not reserved already; logs a warning if the disk is full."""
        if not self._reserve_bytes or self._has_reserve():
            return
        try:
            # Random bytes, which no file system can compress or share. They need no fsync.
            self._files.write_whole(self._reserve_path, os.urandom(self._reserve_bytes), durable=False)
        except OSError as error:
            logger.warning(
                "no disk space for the reserve of the data folder",
                extra={"path": self._reserve_path, "bytes": self._reserve_bytes, "reason": str(error)},
            )

    def _has_reserve(self) -> bool:
        with suppress(FileNotFoundError):
            return self._files.size(self._reserve_path) == self._reserve_bytes
        return False

    def use_reserve(self) -> None:
        """Free the reserved disk space."""
        with suppress(FileNotFoundError):
            self._files.remove(self._reserve_path)

    def release(self) -> None:
        os.close(self._lock)
