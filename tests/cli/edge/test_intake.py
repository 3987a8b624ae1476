"""What edges have in common when they start."""

from __future__ import annotations

from pathlib import Path

from headrace.cli.edge.intake import open_intake
from headrace.edges.event import Event
from headrace.edges.settings import EdgeSettings
from headrace.kafka.cluster import Cluster
from tests.edges.conftest import values_in


def test_topics_of_an_edge_exist_before_its_first_event(bootstrap: str, name: str) -> None:
    with open_intake("numbers", EdgeSettings(), bootstrap, name, f"dlq.{name}") as intake:
        existing = Cluster(bootstrap, timeout_s=30).topics()
        assert {name, f"dlq.{name}"} <= set(existing)
        intake.offer([Event(topic=name, value=b"1")])
    assert values_in(bootstrap, name) == [b"1"]


def test_edge_with_a_buffer_starts_without_a_broker(tmp_path: Path, name: str) -> None:
    settings = EdgeSettings(overload="buffer", data_dir=tmp_path, stop_s=0)
    with open_intake("numbers", settings, "127.0.0.1:1", name) as intake:
        intake.offer([Event(topic=name, value=b"1")])
    assert intake.count().pending == 1
