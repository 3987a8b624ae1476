"""A broker inside a Python program: in a thread of its own, or in the running event loop.

with Broker() as broker:
    producer = Producer({"bootstrap.servers": broker.bootstrap})

async with Broker() as broker:
    ...
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Unpack

from headrace.broker.options import BrokerOptions
from headrace.broker.server import Server, run_in_loop
from headrace.broker.settings import BrokerSettings
from headrace.settings import make


class Broker:
    """A broker on a free loopback port, with temporary data unless `data_dir` is given.

    Every setting of the broker is a keyword: `Broker(durability="os", default_partitions=3)`.
    """

    def __init__(
        self, data_dir: str | Path | None = None, *, port: int = 0, **settings: Unpack[BrokerOptions]
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-") if data_dir is None else None
        folder = Path(data_dir if data_dir is not None else self._temporary.name)  # type: ignore[union-attr]
        self.settings = make(BrokerSettings, {"data_dir": folder, "port": port, **settings})
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients, as HOST:PORT."""
        assert self._server is not None, (
            "the broker is not running: use it in a with statement, or call start()"
        )
        return self._server.bootstrap

    @property
    def metrics_port(self) -> int:
        """The port of /metrics and /health, for a broker that was given `metrics_port`."""
        assert self._server is not None, "the broker is not running"
        return self._server.metrics_port

    # In a thread

    def start(self) -> Broker:
        ready: Future[None] = Future()
        self._thread = threading.Thread(
            target=run_in_loop, args=(self._serve(ready),), name="headrace-broker", daemon=True
        )
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self

    def stop(self) -> None:
        """Stop it cleanly; a second time does nothing."""
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            await self.__aenter__()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        await self._stop.wait()
        await self.__aexit__()

    def __enter__(self) -> Broker:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # In the running event loop

    async def __aenter__(self) -> Broker:
        server = Server(self.settings)
        try:
            await server.start()
        except BaseException:
            self._cleanup()
            raise
        self._server = server
        return self

    async def __aexit__(self, *_error: object) -> None:
        assert self._server is not None
        await self._server.stop()
        self._cleanup()

    def _cleanup(self) -> None:
        self._server = None
        if self._temporary is not None:
            self._temporary.cleanup()
