"""The broker's side of one topic and group: its settings, and what is written before a message is rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.dead_letters import dead_letter_topic
from headrace.gateway.settings import GatewaySettings
from headrace.kafka.cluster import Cluster
from headrace.queue.group_settings import GroupSettings, ensure_settings, read_settings, wanted_settings
from headrace.queue.outbox import Outbox
from headrace.queue.rejections import Rejections
from headrace.queue.replies import Replies
from headrace.queue.verdicts import Verdicts

EARLIEST = "earliest"
"""Where a new group starts, as everywhere in queues."""

REQUEST_MS_MAX = 10_000
"""Of a consumer that is closed while the broker does not respond, too."""

FETCH_WAIT_MS = 100
"""A fetch that waits at the broker can't be cancelled: what it still locks for a client that has gone is released, and
counts as a delivery on Headrace's broker. A shorter wait costs more requests."""


class Group:
    """The methods wait for the broker."""

    def __init__(self, cluster: Cluster, outbox: Outbox, settings: GatewaySettings, name: str) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._settings = settings
        self.name = name

    def open(self) -> GroupSettings:
        """A new group gets the settings that every queue gets."""
        wanted = wanted_settings(
            start=EARLIEST, dead_letter_topic=dead_letter_topic(self.name), is_ordered=False
        )
        return ensure_settings(self._cluster, self.name, wanted)

    def settings(self) -> GroupSettings:
        return read_settings(self._cluster, self.name)

    def verdicts(self, settings: GroupSettings) -> Verdicts:
        rejections = Rejections(
            self._cluster,
            self._outbox,
            group=self.name,
            settings=settings,
            dead_letter_topic=dead_letter_topic(self.name),
        )
        return Verdicts(rejections, Replies(self._outbox))

    def consumer_config(self) -> Mapping[str, Any]:
        return {
            **self._cluster.client_config(),
            "log_level": 0,
            "group.id": self.name,
            "share.acknowledgement.mode": "explicit",
            "fetch.max.bytes": self._settings.read_bytes_max,
            "fetch.wait.max.ms": FETCH_WAIT_MS,
            "socket.timeout.ms": REQUEST_MS_MAX,
            "reconnect.backoff.max.ms": 1_000,
        }
