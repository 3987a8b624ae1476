"""`headrace broker` on a disk that is as full as a file defines: it has the number of bytes that are left.

Run with the path of that file and the options of BrokerProcess.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from headrace.broker.server import Server, run_in_loop
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares import storage
from headrace.log.filesystem import Buffer, DiskFileSystem
from headrace.settings import make
from tests.faults.broker_process import READY_PREFIX, BrokerProcess


class FullDisk(DiskFileSystem):
    """A longer file takes room; with none left a part of it is written, as on a real disk."""

    def __init__(self, room_file: str) -> None:
        self._room_file = room_file
        self._filled_at_ns = 0
        self._room_bytes = 0

    def _left_bytes(self) -> int | None:
        """None while the disk is not full."""
        try:
            filled_at_ns = os.stat(self._room_file).st_mtime_ns
            if filled_at_ns != self._filled_at_ns:
                self._room_bytes = int(Path(self._room_file).read_text() or 0)
                self._filled_at_ns = filled_at_ns
        except FileNotFoundError:
            return None
        return self._room_bytes

    def create(self, path: str) -> int:
        if not os.path.exists(path) and self._left_bytes() == 0:
            raise _no_space(path)
        return super().create(path)

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        left_bytes = self._left_bytes()
        data = b"".join(parts)
        grows_bytes = max(position + len(data) - os.fstat(fd).st_size, 0)
        if left_bytes is None or grows_bytes == 0:
            super().write(fd, parts, position)
            return
        taken_bytes = min(grows_bytes, left_bytes)
        self._room_bytes -= taken_bytes
        super().write(fd, (data[: len(data) - grows_bytes + taken_bytes],), position)
        if taken_bytes < grows_bytes:
            raise _no_space("a log")

    def make_directory(self, path: str) -> None:
        if not os.path.isdir(path) and self._left_bytes() == 0:
            raise _no_space(path)
        super().make_directory(path)

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        left_bytes = self._left_bytes()
        if left_bytes is not None and left_bytes < len(content):
            raise _no_space(path)
        super().write_whole(path, content, durable=durable)


def _no_space(path: str) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)


class FullDiskBroker(BrokerProcess):
    """A broker in a process of its own, whose disk a test fills and empties."""

    @property
    def _room_file(self) -> Path:
        return self.data_dir.with_name(f"{self.data_dir.name}.room")

    @property
    def command(self) -> list[str]:
        settings = {"data_dir": self.data_dir, "port": self.port, **self._settings}
        options = [f"{name}={value}" for name, value in settings.items()]
        return [sys.executable, "-m", "tests.faults.full_disk_broker", str(self._room_file), *options]

    def fill(self, room_bytes: int) -> None:
        self._room_file.write_text(str(room_bytes))

    def empty(self) -> None:
        self._room_file.unlink(missing_ok=True)


async def serve(room_file: str, settings: BrokerSettings) -> None:
    server = Server(settings, files=FullDisk(room_file))
    await server.start()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    print(f"{READY_PREFIX}{server.bootstrap}", flush=True)
    await stop.wait()
    await server.stop()


if __name__ == "__main__":
    # Each kind of record of a state is to meet the full disk, not only the frequent one.
    storage.UPDATES_PER_SNAPSHOT = 10
    given = dict(option.split("=", 1) for option in sys.argv[2:])
    run_in_loop(serve(sys.argv[1], make(BrokerSettings, given)))
