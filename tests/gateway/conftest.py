"""A gateway in a thread of the test, with a real broker behind it and real HTTP clients in front."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import httpx_sse
import pytest
import uvicorn
from confluent_kafka import Producer
from fastapi import APIRouter

from headrace.edges.settings import EdgeSettings
from headrace.gateway.app import create_app
from headrace.gateway.connections import connections
from headrace.gateway.edge_publisher import EdgePublisher
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.gateway.server import WEB_SOCKETS
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.loopback import LOOPBACK_NAMES
from headrace.webhooks.incoming.reception import Reception
from tests.views.topics import create_topic

READY_S = 30.0
WAIT_S = 60.0

JSON = {"Content-Type": "application/json"}


class Serving:
    def __init__(
        self,
        bootstrap: str,
        *,
        registry: Registry | OtherRegistry | None = None,
        routers: tuple[APIRouter, ...] = (),
        edge: EdgeSettings | None = None,
        **limits: Any,
    ) -> None:
        """With webhooks and an overload policy, if there are settings of an edge."""
        self.settings = GatewaySettings(**limits)
        self.cluster = Cluster(bootstrap, timeout_s=15)
        self.webhooks = Reception(self.cluster, edge) if edge else None
        self.edge = None
        if edge is not None and edge.overload != "block":
            self.edge = EdgePublisher(self.cluster.client_config(), edge, self.settings)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.app = create_app(
            self.cluster,
            self.settings,
            hosts=LOOPBACK_NAMES,
            registry=registry,
            routers=routers,
            webhooks=self.webhooks,
            edge=self.edge,
        )
        config = uvicorn.Config(
            self.app,
            log_level="critical",
            http=connections(self.settings),  # type: ignore[arg-type]
            h11_max_incomplete_event_size=self.settings.head_bytes_max,
            timeout_graceful_shutdown=1,
            **WEB_SOCKETS,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = httpx.Client(base_url=self.url, timeout=WAIT_S)

    def start(self) -> None:
        self._thread.start()
        deadline_s = time.monotonic() + READY_S
        while not self._server.started:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)

    def stop(self) -> None:
        """As SIGTERM does."""
        self.client.close()
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
        if self.webhooks is not None:
            self.webhooks.close()
        if self.edge is not None:
            self.edge.close()

    def get(self, path: str, **parameters: Any) -> httpx.Response:
        return self.client.get(path, params=parameters or None)

    def post(self, path: str, content: str | bytes, content_type: str, **options: Any) -> httpx.Response:
        return self.client.post(path, content=content, headers={"Content-Type": content_type}, **options)

    def records(self, topic: str, **parameters: Any) -> list[dict[str, Any]]:
        """All of them, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            response = self.get(f"/topics/{topic}/records", **parameters)
            assert response.status_code == 200, response.text
            page = response.json()
            found += page["records"]
            if page["at_end"]:
                return found
            parameters = {
                **{each: parameters[each] for each in ("format", "partition", "limit") if each in parameters},
                "position": page["position"],
            }

    @contextlib.contextmanager
    def events(
        self, path: str, *, last_event_id: str = "", **parameters: Any
    ) -> Iterator[Iterator[httpx_sse.ServerSentEvent]]:
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        with httpx_sse.connect_sse(self.client, "GET", path, params=parameters, headers=headers) as source:
            assert source.response.status_code == 200, source.response.read()
            yield source.iter_sse()

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)


Serve = Callable[..., Serving]


@pytest.fixture(scope="session")
def gateway(bootstrap: str) -> Iterator[Serving]:
    """Shared by the tests of a worker, with the limits that users have."""
    serving = Serving(bootstrap)
    serving.start()
    yield serving
    serving.stop()


@pytest.fixture
def serve(bootstrap: str) -> Iterator[Serve]:
    """Starts a gateway with limits of the test's own."""
    started: list[Serving] = []

    def start(**options: Any) -> Serving:
        serving = Serving(bootstrap, **options)
        started.append(serving)
        serving.start()
        return serving

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=15)


NewTopic = Callable[..., str]


@pytest.fixture
def new_topic(cluster: Cluster) -> NewTopic:
    def create(partitions: int = 3, **config: str) -> str:
        name = f"gateway-{uuid.uuid4().hex[:12]}"
        create_topic(cluster, name, partitions=partitions, config=config)
        return name

    return create


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """With three partitions."""
    return new_topic()


Write = Callable[..., None]


@pytest.fixture(scope="session")
def write(bootstrap: str) -> Write:
    """Writes values with a client of the broker, `partition` for all of them or one by one in turn."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})

    def write(
        topic: str, *values: bytes | None, partition: int | None = None, partitions: int = 3, **options: Any
    ) -> None:
        for index, value in enumerate(values):
            number = index % partitions if partition is None else partition
            producer.produce(topic, value, partition=number, **options)
        assert producer.flush(WAIT_S) == 0

    return write
