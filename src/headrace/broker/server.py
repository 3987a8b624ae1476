"""A broker from start to stop, inside an event loop or as a process of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from headrace.broker import descriptors, handlers
from headrace.broker.connection import Connection
from headrace.broker.data_folder import DataFolder
from headrace.broker.dispatch import Call
from headrace.broker.exposure import check_exposure
from headrace.broker.parts import build
from headrace.broker.settings import BrokerSettings
from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError
from headrace.log import checkpoints
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.printable import printable_lines

logger = logging.getLogger(__name__)

# Connections that wait to be accepted: clients that start together must not be refused.
LISTEN_BACKLOG = 512
# New objects after which Python collects garbage; 700 by default.
GC_THRESHOLD = 20_000

assert handlers.__all__, "importing the handlers registers them"


class Server:
    """A broker in the running event loop: `await start()`, then `bootstrap`, then `await stop()`."""

    def __init__(
        self, settings: BrokerSettings, *, files: FileSystem | None = None, clock: Clock | None = None
    ) -> None:
        self.settings = settings
        self._files = files or DiskFileSystem()
        self._clock = clock or SystemClock()
        self._stopping = False
        self._listener: asyncio.Server | None = None
        self._stop_metrics: Callable[[], None] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    async def start(self) -> None:
        check_exposure(self.settings)
        loop = asyncio.get_running_loop()
        self._folder = DataFolder(
            self.settings.data_dir, self._files, reserve_bytes=self.settings.reserve_bytes
        )
        try:
            self.parts = build(
                self.settings, folder=self._folder, files=self._files, clock=self._clock, loop=loop
            )
            if not checkpoints.has_clean_shutdown_mark(self._files, str(self.settings.data_dir)):
                self._folder.use_reserve()
            self.parts.topics.load()
            self.parts.producer_ids.skip_past(self.parts.topics.largest_producer_id)
            self._folder.take_reserve()
        except OSError as error:
            self._folder.release()
            raise HeadraceError(
                f"the data folder {self.settings.data_dir} can't be opened: {error}",
                hint="make room on its disk, raise the limit of open files (ulimit -n), or check its permissions",
            ) from error
        except BaseException:
            self._folder.release()
            raise
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self.parts.runtime.failures.report_unhandled)
        try:
            await self._open_ports(loop)
            self.parts.groups.load()
            self.parts.shares.load()
            self.parts.transactions.load()
        except BaseException:
            self._close_ports()
            # Nothing has changed, so the next start is as quick as this one.
            self.parts.topics.close()
            self._folder.release()
            raise
        self.parts.housekeeping.start()
        logger.info(
            "broker started",
            extra={
                "listen": self.bootstrap,
                "data_dir": str(self.settings.data_dir),
                "durability": self.settings.durability,
                "topics": len(self.parts.topics),
            },
        )

    async def _open_ports(self, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = await self._listen(loop)
        self.host, self.port = self._listener.sockets[0].getsockname()[:2]
        self._stop_metrics = await self._start_metrics()

    def _close_ports(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._stop_metrics is not None:
            self._stop_metrics()

    async def _listen(self, loop: asyncio.AbstractEventLoop) -> asyncio.Server:
        try:
            return await loop.create_server(
                partial(
                    Connection,
                    self.settings,
                    runtime=self.parts.runtime,
                    traffic=self.parts.traffic,
                    log_throttle=self.parts.log_throttle,
                    make_call=partial(Call, parts=self.parts),
                ),
                self.settings.host,
                self.settings.port,
                backlog=LISTEN_BACKLOG,
            )
        except OSError as error:
            raise _cannot_listen(
                self.settings.host, self.settings.port, "--listen HOST:PORT", error
            ) from error

    async def _start_metrics(self) -> Callable[[], None] | None:
        if self.settings.metrics_port is None:
            return None
        from headrace.broker.metrics import serve_metrics  # costs 60 ms, and most brokers don't want it

        host, port = self.settings.host, self.settings.metrics_port
        try:
            stop, self.metrics_port = await serve_metrics(self.parts, host, port)
        except OSError as error:
            raise _cannot_listen(host, port, "--metrics-port", error) from error
        return stop

    async def stop(self) -> None:
        """Refuse new requests, answer what is ready, and close the logs, so that the next start is instant."""
        if self._stopping:
            return
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        await self.parts.housekeeping.stop()
        self.parts.groups.close()
        self.parts.share_members.close()
        self.parts.shares.close()
        self.parts.transactions.close()
        self.parts.fetch_waiters.wake_all()
        for _ in range(4):  # an answer passes through a future, a task, a callback and the socket
            await asyncio.sleep(0)
        for connection in tuple(self.parts.traffic.connections):
            connection.close()
        self.parts.inspection.close()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.parts.flusher.close)
        await asyncio.sleep(0)  # let the last flushes complete their requests
        self._folder.use_reserve()
        self.parts.topics.close()
        self._folder.take_reserve()
        await loop.run_in_executor(None, self.parts.archiver.close)
        # A compaction that runs finds its log closed, and ends.
        await loop.run_in_executor(None, self.parts.runtime.close)
        if self._stop_metrics is not None:
            self._stop_metrics()
        self._folder.release()
        logger.info("broker stopped")


def _cannot_listen(host: str, port: int, option: str, error: OSError) -> HeadraceError:
    return HeadraceError(
        f"can't listen on {host}:{port}: {error.strerror or error}",
        hint=f"another program may hold the port; choose another with {option}",
    )


def run(settings: BrokerSettings) -> int:
    """Run a broker until SIGINT or SIGTERM; the exit code of the process."""
    try:
        run_in_loop(_serve(settings))
    except HeadraceError as error:
        print(f"headrace broker: {printable_lines(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {printable_lines(error.hint)}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"headrace broker: the start failed: {printable_lines(str(error))}", file=sys.stderr)
        print("hint: check the disk and the permissions of the data folder", file=sys.stderr)
        return 1
    return 0


async def _serve(settings: BrokerSettings) -> None:
    descriptors.raise_limit()
    server = Server(settings)
    await server.start()
    _warn_of_few_descriptors(server)
    # The objects of the start stay, so the collector need not traverse them again. Requests create no reference cycles,
    # so frequent collections would only cost time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    print(f"headrace broker ready at {server.bootstrap}", flush=True)
    await stop.wait()
    await server.stop()


def _warn_of_few_descriptors(server: Server) -> None:
    limit = descriptors.current_limit()
    topics, traffic = server.parts.topics, server.parts.traffic
    wanted = descriptors.wanted(
        connections=server.settings.connections_max, partitions=topics.partition_count
    )
    if limit is not None and limit < wanted:
        logger.warning(
            "the limit of open files is low: raise it (ulimit -n, LimitNOFILE)",
            extra={
                "limit": limit,
                "wanted": wanted,
                "partitions": topics.partition_count,
                "connections_max": traffic.connections_max,
            },
        )


def run_in_loop(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run`, on uvloop if it is installed."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(main)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
