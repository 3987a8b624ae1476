"""The process that serves topics over HTTP, until it is stopped."""

from __future__ import annotations

import contextlib
import gc
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI

from headrace import http_server
from headrace.alerts.settings import AlertSettings
from headrace.clock import SystemClock
from headrace.edges.settings import EdgeSettings
from headrace.errors import HeadraceError
from headrace.gateway.app import create_app
from headrace.gateway.catalog.definitions import Definitions
from headrace.gateway.catalog.routes import catalog_router
from headrace.gateway.catalog.source import CatalogSource
from headrace.gateway.connections import WebSocketConnection, connections
from headrace.gateway.edge_publisher import EdgePublisher
from headrace.gateway.registry.other import OtherRegistry
from headrace.gateway.registry.registry import Registry
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.webhooks.incoming.reception import Reception

GC_THRESHOLD = 50_000

WEB_SOCKETS: dict[str, Any] = {
    "ws": WebSocketConnection,
    "ws_max_size": 65_536,  # of messages from clients, which are ignored
    "ws_per_message_deflate": False,  # it costs each connection tens of KB
}


def serve(
    cluster: Cluster,
    settings: GatewaySettings,
    *,
    edge: EdgeSettings | None = None,
    alerts_dir: Path | None = None,
    on_ready: Callable[[str], None] = print,
    on_problem: Callable[[str], None] = lambda _text: None,
) -> None:
    """Until Ctrl-C or SIGTERM. There is no authentication. `edge` has the folder of webhooks, and what happens
    to them and to records when the broker is overloaded; `alerts_dir` that of alerts. `on_problem` gets texts for
    people."""
    with contextlib.ExitStack() as opened:

        def application(hosts: frozenset[str] | None) -> FastAPI:
            registry = opened.enter_context(_registry(cluster, settings))
            of_edge = edge or EdgeSettings()
            definitions = Definitions(
                webhooks_dir=of_edge.data_dir, alerts_dir=alerts_dir or AlertSettings().data_dir
            )
            app = create_app(
                cluster,
                settings,
                hosts=hosts,
                registry=registry,
                routers=(catalog_router(CatalogSource(cluster, registry, SystemClock(), definitions)),),
                webhooks=opened.enter_context(_webhooks(cluster, settings, of_edge, on_problem)),
                edge=opened.enter_context(_edge(cluster, settings, of_edge, on_problem)),
            )
            _collect_garbage_rarely()
            return app

        _raise_descriptors()
        http_server.serve(
            application,
            settings.host,
            settings.port,
            is_open=settings.insecure,
            exposes="read and write all topics",
            failure=HeadraceError,
            listen_hint="--listen names another address",
            requests_max=None,  # the gateway counts by itself: streams are not requests
            head_bytes_max=settings.head_bytes_max,
            protocol=connections(settings),
            websockets=WEB_SOCKETS,
            on_ready=on_ready,
        )


@contextlib.contextmanager
def _registry(cluster: Cluster, settings: GatewaySettings) -> Iterator[Registry | OtherRegistry | None]:
    if settings.registry:
        yield OtherRegistry(settings.registry)
    elif settings.schema_registry:
        with contextlib.closing(Registry.open(cluster.bootstrap)) as registry:
            yield registry
    else:
        yield None


@contextlib.contextmanager
def _webhooks(
    cluster: Cluster, settings: GatewaySettings, edge: EdgeSettings, on_problem: Callable[[str], None]
) -> Iterator[Reception]:
    reception = Reception(cluster, edge, answer_ms_max=settings.webhook_answer_ms_max, on_problem=on_problem)
    try:
        yield reception
    finally:
        reception.close()


@contextlib.contextmanager
def _edge(
    cluster: Cluster, settings: GatewaySettings, edge: EdgeSettings, on_problem: Callable[[str], None]
) -> Iterator[EdgePublisher | None]:
    if edge.overload == "block":
        yield None
        return
    publisher = EdgePublisher(cluster.client_config(), edge, settings, on_problem=on_problem)
    try:
        yield publisher
    finally:
        publisher.close()


def _collect_garbage_rarely() -> None:
    """A request creates thousands of objects without cycles, and each collection would look at all of the libraries."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


def _raise_descriptors() -> None:
    """Each connection is a descriptor, and the usual limit is 1,024."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS reports no limit, but has one
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
