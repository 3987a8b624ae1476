"""Prometheus metrics of the process of an edge, on an HTTP port of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.edges.counters import Count
from headrace.edges.errors import BadEdge

REQUEST_S = 5
"""One request is served at a time: a client that sends half of one delays the next for so long."""

HOST = "127.0.0.1"

LossCounts = Callable[[], dict[str, int]]
"""By place, what was lost before the intake: in the kernel, as garbage."""


class EdgeCollector(Collector):
    """An edge that only sends has no intake, and no `count`. `counted` is what became of direct messages, by kind."""

    def __init__(
        self, edge: str, count: Callable[[], Count] | None, lost: LossCounts, counted: LossCounts = dict
    ) -> None:
        self._edge = edge
        self._count = count
        self._lost = lost
        self._counted = counted

    def collect(self) -> Iterator[Metric]:
        if self._count is not None:
            yield from self._of_intake(self._count())
        yield self._by("place", "lost", "What was lost outside the intake, or rejected.", self._lost())
        if kinds := self._counted():
            yield self._by("kind", "feed", "Events of direct messaging, and packets out of order.", kinds)

    def _of_intake(self, count: Count) -> Iterator[Metric]:
        labels = ["edge"]
        for name, doc, value in (
            ("received", "Events that the edge has taken.", count.received),
            ("replayed", "Events that an earlier run has left in the buffer.", count.replayed),
            ("delivered", "Events that the broker has acknowledged.", count.delivered),
            ("pushed_back", "How often there was no room, and the sender had to wait.", count.pushed_back),
        ):
            counter = CounterMetricFamily(f"headrace_edge_{name}", doc, labels=labels)
            counter.add_metric([self._edge], value)
            yield counter
        for name, doc, number in (
            ("pending", "Events in memory, in flight or in the buffer.", count.pending),
            ("memory_bytes", "Bytes of events in memory and in flight.", count.memory_bytes),
            ("buffered_bytes", "Bytes of the buffer on disk.", count.buffered_bytes),
        ):
            gauge = GaugeMetricFamily(f"headrace_edge_{name}", doc, labels=labels)
            gauge.add_metric([self._edge], number)
            yield gauge
        yield self._by("reason", "dropped", "Events that were dropped.", count.dropped)

    def _by(self, label: str, name: str, doc: str, counts: dict[str, int]) -> Metric:
        family = CounterMetricFamily(f"headrace_edge_{name}", doc, labels=["edge", label])
        for value, count in counts.items():
            family.add_metric([self._edge, value], count)
        return family


class _QuietHandler(WSGIRequestHandler):
    timeout = REQUEST_S

    def log_message(self, format: str, *arguments: object) -> None:
        """Requests of a scraper are no news."""


@contextmanager
def serve_metrics(
    edge: str,
    count: Callable[[], Count] | None,
    port: int | None,
    *,
    lost: LossCounts = dict,
    counted: LossCounts = dict,
) -> Iterator[int | None]:
    """Serve /metrics on loopback while the context lasts; the port. No port: nothing is served."""
    if port is None:
        yield None
        return
    registry = CollectorRegistry()
    registry.register(EdgeCollector(edge, count, lost, counted))
    try:
        server = make_server(HOST, port, make_wsgi_app(registry), handler_class=_QuietHandler)
    except OSError as error:
        raise BadEdge(
            f"can't serve metrics on {HOST}:{port}: {error.strerror}", hint="choose another --metrics-port"
        ) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
