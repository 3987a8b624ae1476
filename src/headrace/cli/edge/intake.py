"""The intake of an edge's command, and the line that it prints when it is ready."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace.cli.command import connect
from headrace.cli.output import note
from headrace.edges.settings import EdgeSettings
from headrace.kafka.errors import RequestFailed
from headrace.kafka.settings import client_config, client_settings

if TYPE_CHECKING:
    from headrace.edges.overload import Intake


def note_ready(kind: str, addresses: str, metrics_port: int | None) -> None:
    metrics = f"; metrics at http://127.0.0.1:{metrics_port}/metrics" if metrics_port is not None else ""
    note(f"headrace edge {kind} ready at {addresses}{metrics}")


@contextlib.contextmanager
def open_intake(
    edge: str, settings: EdgeSettings, bootstrap: str | None, *topics: str, marks_drops: bool = True
) -> Iterator[Intake]:
    """The intake of an edge for topics that exist, or will be created by their first event."""
    from headrace.edges.overload import Intake

    config = _config(settings, bootstrap, topics)
    with Intake(config, settings, name=edge, on_problem=note, marks_drops=marks_drops) as intake:
        yield intake


def _config(settings: EdgeSettings, bootstrap: str | None, topics: tuple[str, ...]) -> dict[str, Any]:
    from headrace.dead_letters import TOPIC_CONFIG, TOPIC_PREFIX

    try:
        cluster = connect(bootstrap)
    except RequestFailed as error:
        if settings.overload != "buffer":
            raise
        note(f"{error.message}; events wait in the buffer")
        return client_config(client_settings(bootstrap).bootstrap)
    existing = cluster.topics()
    for topic in topics:
        if topic.startswith(TOPIC_PREFIX):
            cluster.create_topic(topic, config=TOPIC_CONFIG, exist_ok=True)
        elif topic not in existing:
            cluster.create_by_use(topic)
    return cluster.client_config()
