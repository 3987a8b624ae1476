"""A broker from start to stop, inside an event loop or as a process of its own."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from headrace.broker import descriptors, handlers
from headrace.broker.connection import Connection
from headrace.broker.data_folder import DataFolder
from headrace.broker.housekeeping import Housekeeping
from headrace.broker.parts import Parts
from headrace.broker.settings import BrokerSettings
from headrace.clock import Clock, SystemClock
from headrace.errors import HeadraceError
from headrace.log import checkpoints
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.loopback import is_loopback
from headrace.printable import printable_lines

logger = logging.getLogger(__name__)

# Connections that wait to be accepted: clients that start together must not be rejected.
LISTEN_BACKLOG = 512
# New objects after which Python collects garbage; 700 by default.
GC_THRESHOLD = 20_000

assert handlers.MODULES, "importing the handlers registers them"


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
        self._folder = DataFolder(
            self.settings.data_dir, self._files, reserve_bytes=self.settings.reserve_bytes
        )
        with ExitStack() as on_failure:
            on_failure.callback(self._folder.release)
            self._open_folder()
            # Nothing has changed, so the next start is as quick as this one.
            on_failure.callback(self.parts.topics.close)
            on_failure.callback(self._close_ports)
            await self._open_ports()
            self.parts.groups.load()
            self.parts.shares.load()
            self.parts.transactions.load()
            on_failure.pop_all()
        self.housekeeping.start()
        logger.info(
            "broker started",
            extra={
                "listen": self.bootstrap,
                "data_dir": str(self.settings.data_dir),
                "durability": self.settings.durability,
                "topics": len(self.parts.topics),
            },
        )

    def _open_folder(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            self.parts = Parts(
                self.settings,
                cluster_id=self._folder.cluster_id,
                files=self._files,
                clock=self._clock,
                loop=loop,
            )
            self.housekeeping = Housekeeping(self.parts, self._folder)
            if not checkpoints.has_clean_shutdown_mark(self._files, str(self.settings.data_dir)):
                self._folder.use_reserve()
            self.parts.topics.load()
            self.parts.producer_ids.skip_past(self.parts.topics.largest_producer_id)
            self._folder.take_reserve()
        except OSError as error:
            raise HeadraceError(
                f"the data folder {self.settings.data_dir} can't be opened: {error}",
                hint="make room on its disk, raise the limit of open files (ulimit -n), or check its permissions",
            ) from error
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self.parts.runtime.failures.report_unhandled)

    async def _open_ports(self) -> None:
        host, port, metrics_port = self.settings.host, self.settings.port, self.settings.metrics_port
        loop = self.parts.runtime.loop
        with _explained(host, port, "--listen HOST:PORT"):
            connect = partial(Connection, self.parts)
            self._listener = await loop.create_server(connect, host, port, backlog=LISTEN_BACKLOG)
        self.host, self.port = self._listener.sockets[0].getsockname()[:2]
        if metrics_port is None:
            return
        from headrace.broker.metrics import serve_metrics  # costs 60 ms, and most brokers don't serve metrics

        with _explained(host, metrics_port, "--metrics-port"):
            serving = serve_metrics(self.parts, self.housekeeping, host, metrics_port)
            self._stop_metrics, self.metrics_port = await serving

    def _close_ports(self) -> None:
        if self._listener is not None:
            self._listener.close()
        if self._stop_metrics is not None:
            self._stop_metrics()

    async def stop(self) -> None:
        """Reject new requests, send ready responses, and close the logs, so that the next start is instant."""
        if self._stopping:
            return
        self._stopping = True
        if self._listener is not None:
            self._listener.close()
        await self.housekeeping.stop()
        self.parts.groups.close()
        self.parts.share_members.close()
        self.parts.shares.close()
        self.parts.transactions.close()
        self.parts.fetch_waiters.wake_all()
        for _ in range(4):  # a response passes through a future, a task, a callback and the socket
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


def check_exposure(settings: BrokerSettings) -> None:
    """Reject an address that is not loopback, unless `insecure` is set; then warn, at every start."""
    if is_loopback(settings.host):
        return
    ports = "port" if settings.metrics_port is None else "ports of the broker and of its metrics"
    if not settings.insecure:
        raise HeadraceError(
            f"{settings.host or 'an empty host'} is not a loopback address: the {ports} would be open to every machine "
            "that reaches it, without authentication",
            hint="listen on 127.0.0.1, or give --insecure (insecure = true) if you trust that network",
        )
    # Above every level that the log can be set to.
    logger.critical(
        "INSECURE: the %s can be used by every machine that reaches the address, without authentication or encryption",
        ports,
        extra={"host": settings.host, "port": settings.port, "metrics_port": settings.metrics_port},
    )


@contextmanager
def _explained(host: str, port: int, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise HeadraceError(
            f"can't listen on {host}:{port}: {error.strerror or error}",
            hint=f"another program may hold the port; choose another with {option}",
        ) from error


def run(settings: BrokerSettings) -> int:
    """Run a broker until SIGINT or SIGTERM; the exit code of the process."""
    try:
        run_in_loop(_serve(settings))
    except (HeadraceError, OSError) as error:
        if isinstance(error, OSError):
            hint = "check the disk and the permissions of the data folder"
            error = HeadraceError(f"the start failed: {error}", hint=hint)
        print(f"headrace broker: {printable_lines(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"hint: {printable_lines(error.hint)}", file=sys.stderr)
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
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main)
