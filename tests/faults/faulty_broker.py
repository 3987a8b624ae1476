"""A broker in a thread whose disk fails or waits when a test wants it."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from headrace.broker.server import Server, run_in_loop
from headrace.broker.settings import BrokerSettings
from headrace.clock import Clock
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.settings import make
from headrace.testing.failing_filesystem import FailingFileSystem

GATE_TIMEOUT_S = 60


class GatedFileSystem(DiskFileSystem):
    """fsyncs of log files wait at a gate while it is closed; then the next `failing` of them fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self.failing = 0
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.waiting.set()
        assert self.gate.wait(GATE_TIMEOUT_S), "the test never opened the gate"
        self.syncs += 1
        if self.failing:
            self.failing -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)


class Unreadable(FailingFileSystem, kw_only=True):
    """Files that match can't be read by the threads that load them, `failing` times."""

    pattern: str
    failing: int

    def read(self, fd: int, count: int, position: int) -> bytes:
        is_loading = threading.current_thread().name.startswith("disk")
        if self.failing and is_loading and fnmatch(self._paths[fd], self.pattern):
            self.failing -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return super().read(fd, count, position)


@contextmanager
def broker_on(
    files: FileSystem, data_dir: Path, clock: Clock | None = None, /, **settings: Any
) -> Iterator[Server]:
    """A running broker on a file system, and perhaps a clock, of the test's own."""
    server = Server(
        make(BrokerSettings, {"data_dir": data_dir, "port": 0, "metrics_port": 0, **settings}),
        files=files,
        clock=clock,
    )
    ready: Future[asyncio.AbstractEventLoop] = Future()
    stop = asyncio.Event()

    async def serve() -> None:
        try:
            await server.start()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(asyncio.get_running_loop())
        await stop.wait()
        await server.stop()

    thread = threading.Thread(target=run_in_loop, args=(serve(),), name="broker under test")
    thread.start()
    loop = ready.result()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
