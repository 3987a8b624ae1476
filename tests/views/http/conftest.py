"""A real server in a thread of the test, and clients that speak HTTP to it."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from headrace.loopback import LOOPBACK_NAMES
from headrace.views.catalog import Views
from headrace.views.http.app import ViewServer, create_app
from headrace.views.http.server import HEAD_BYTES_MAX
from tests.contract.view_store_contract import Bench, user

READY_S = 30.0

Serve = Callable[..., "Serving"]


class Serving:
    def __init__(self, bench: Bench, **limits: Any) -> None:
        self.views = ViewServer(Views(bench.lab.folder), **limits)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        app = create_app(self.views, hosts=LOOPBACK_NAMES)
        config = uvicorn.Config(
            app, log_level="critical", http="h11", h11_max_incomplete_event_size=HEAD_BYTES_MAX
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)

    def start(self) -> None:
        self._thread.start()
        deadline_s = time.monotonic() + READY_S
        while not self._server.started:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    def stop(self) -> None:
        self.client.close()
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters or None)

    @contextlib.contextmanager
    def follow(
        self, path: str, *, last_event_id: str = "", **parameters: Any
    ) -> Iterator[Iterator[dict[str, Any]]]:
        """The events, each with its id and its data."""
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        with self.client.stream("GET", path, params=parameters, headers=headers) as response:
            assert response.status_code == 200, response.read()
            yield _events(response.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for line in lines:
        name, _, text = line.partition(": ")
        if name in ("id", "event", "data"):
            event[name] = json.loads(text) if name == "data" else text
        elif not line and "data" in event:
            yield event
            event = {}


@pytest.fixture
def serve(bench: Bench) -> Iterator[Serve]:
    """The view `users` with six rows in three cities, served; the arguments are limits of the server."""
    bench.write(1, [user(each, ("Oslo", "Rome", "Lima")[each % 3]) for each in range(6)])
    bench.store().switch(1)
    started: list[Serving] = []

    def start(**limits: Any) -> Serving:
        serving = Serving(bench, **limits)
        started.append(serving)
        serving.start()
        return serving

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def serving(serve: Serve) -> Serving:
    return serve()
