from __future__ import annotations

import socket
import urllib.request

import pytest

from headrace.edges.counters import Counters
from headrace.edges.errors import BadEdge
from headrace.edges.metrics import serve_metrics


def page_of(port: int | None) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
        return str(response.read().decode())


def test_counters_are_served_with_the_name_of_the_edge() -> None:
    counters = Counters()
    counters.add_received(3)
    counters.add_delivered(1)
    counters.add_dropped("newest", 2)
    with serve_metrics("sensors", counters.count, 0, lost=lambda: {"kernel": 7}) as port:
        page = page_of(port)
    assert 'headrace_edge_received_total{edge="sensors"} 3.0' in page
    assert 'headrace_edge_dropped_total{edge="sensors",reason="newest"} 2.0' in page
    assert 'headrace_edge_lost_total{edge="sensors",place="kernel"} 7.0' in page
    assert 'headrace_edge_pending{edge="sensors"} 0.0' in page


def test_nothing_is_served_without_a_port() -> None:
    with serve_metrics("sensors", Counters().count, None) as port:
        assert port is None


def test_port_that_is_taken_is_an_error_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadEdge, match="--metrics-port"), serve_metrics("a", Counters().count, port):
            pass


def test_edge_that_only_sends_serves_what_it_sent_and_nothing_of_an_intake() -> None:
    with serve_metrics("out", None, 0, lost=lambda: {"too large": 2}, counted=lambda: {"sent": 7}) as port:
        page = page_of(port)
    assert 'headrace_edge_feed_total{edge="out",kind="sent"} 7.0' in page
    assert 'headrace_edge_lost_total{edge="out",place="too large"} 2.0' in page
    assert "headrace_edge_delivered" not in page
