"""Webhooks in and alerts, which leave no trace in the cluster that tells who writes or reads a topic: the definitions
in the data folders of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.alerts.catalog import Alerts
from headrace.dead_letters import dead_letter_topic
from headrace.errors import HeadraceError
from headrace.gateway.catalog.model import User, UserKind
from headrace.webhooks.incoming.source import sources

Topics = Mapping[User, Sequence[str]]
"""By who writes or reads them."""


class Definitions:
    """Threads may share it."""

    def __init__(self, *, webhooks_dir: Path, alerts_dir: Path) -> None:
        self._sources = sources(webhooks_dir)
        self._alerts = Alerts(alerts_dir)

    def writers(self, problems: list[str]) -> Topics:
        try:
            found = self._sources.look()
        except OSError as error:
            problems.append(f"webhooks in are missing: {error.strerror}")
            return {}
        problems += [f"webhook in {name} is missing: its file is damaged" for name in found.damaged]
        return {
            User(UserKind.WEBHOOK_IN, name): (each.topic, dead_letter_topic(each.topic))
            for name, each in found.definitions.items()
        }

    def readers(self, problems: list[str]) -> Topics:
        found: dict[User, Sequence[str]] = {}
        for name in self._alerts.names():
            try:
                found[User(UserKind.ALERT, name)] = (self._alerts.get(name).topic,)
            except (HeadraceError, OSError):
                problems.append(f"alert {name} is missing: its file can't be read")
        return found
