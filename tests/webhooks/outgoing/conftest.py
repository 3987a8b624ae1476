"""A real HTTP server that receives webhooks, and a runner that delivers them, each in a thread of the test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from confluent_kafka import Producer
from msgspec import Struct

from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import Cluster
from headrace.webhooks.catalog import Catalog
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.runner import Runner
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.state import TargetFolder
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.secrets import Secret, generate_secret
from tests.views.topics import create_topic

WAIT_S = 60.0
SECRET = generate_secret()


class Received(Struct, frozen=True, kw_only=True):
    path: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


Answering = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


class Receiver:
    """Keeps every request. What it answers is set for each path; by default 204."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received: list[Received] = []
        self.answers: dict[str, Answering | int] = {}
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self.port = 0

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def received(self, path: str = "/hook") -> list[Received]:
        with self._lock:
            return [each for each in self._received if each.path == path]

    def bodies(self, path: str = "/hook") -> list[bytes]:
        return [each.body for each in self.received(path)]

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(WAIT_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._run())
        self._loop.close()

    async def _run(self) -> None:
        self._end = asyncio.Event()
        app = web.Application(client_max_size=100_000_000)
        app.router.add_route("*", "/{rest:.*}", self._handle)
        runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        assert site._server is not None
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name.lower(): text for name, text in request.headers.items()}
        with self._lock:
            self._received.append(Received(path=request.path, body=body, headers=headers))
        answer = self.answers.get(request.path, 204)
        return web.Response(status=answer) if isinstance(answer, int) else await answer(request, body)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    server.start()
    yield server
    server.stop()


def wait_until(condition: Callable[[], bool], what: str = "it did not happen in time") -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.01)


class Running:
    """A runner in a thread."""

    def __init__(self, parts: Parts) -> None:
        self._is_stopping = False
        self._parts = parts
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(Runner(self._parts).run(lambda: self._is_stopping))
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self._is_stopping = True
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


Deliver = Callable[..., Running]


@pytest.fixture
def deliver(bootstrap: str, tmp_path: Path) -> Iterator[Deliver]:
    """Starts a runner for the data folder of the test."""
    started: list[Running] = []

    def start(*, clock: Clock | None = None, at: str = bootstrap, **settings: Any) -> Running:
        parts = Parts(
            cluster=Cluster(at, timeout_s=15),
            settings=OutgoingSettings(data_dir=tmp_path, **settings),
            clock=clock or SystemClock(),
            random=lambda: 0.5,
        )
        running = Running(parts)
        started.append(running)
        return running

    yield start
    for each in started:
        with contextlib.suppress(Exception):
            each.stop()


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=15)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """With two partitions."""
    name = f"webhooks-{uuid.uuid4().hex[:12]}"
    create_topic(cluster, name, partitions=2)
    return name


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog[Target]:
    return Catalog(tmp_path, "out", Target)


def target_of(topic: str, url: str, **options: Any) -> Target:
    name = options.pop("name", f"t-{uuid.uuid4().hex[:8]}")
    source = {} if "queue" in options else {"topic": topic}
    return Target(
        name=name,
        url=url,
        secrets=options.pop("secrets", (Secret(text=SECRET),)),
        **{"allow_inside": True, **source, **options},
    )


def folder_of(tmp_path: Path, target: Target) -> TargetFolder:
    return TargetFolder(tmp_path, target.name)


def committed(cluster: Cluster, target: Target) -> dict[int, int]:
    found = cluster.committed(target.group)
    return {each.number: offset for each, offset in found.items() if each.topic == target.topic}


Write = Callable[..., None]


@pytest.fixture
def write(bootstrap: str) -> Write:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write(topic: str, *values: bytes | None, partition: int = 0, **options: Any) -> None:
        for value in values:
            producer.produce(topic, value, partition=partition, **options)
        assert producer.flush(WAIT_S) == 0

    return write
