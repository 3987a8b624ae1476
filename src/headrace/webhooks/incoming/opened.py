"""What a running process knows of a source: the ids that it accepted, its rate, and the largest event of its topic."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.dead_letters import TOPIC_CONFIG, dead_letter_topic
from headrace.edges.event import Event
from headrace.kafka.cluster import Cluster
from headrace.webhooks.incoming.history import Accepted, read_history
from headrace.webhooks.incoming.limiter import Limiter
from headrace.webhooks.incoming.recent import RecentKeys
from headrace.webhooks.incoming.source import BODY_BYTES_MAX, BURST_S, Source

LETTERS_MAX = 10_000
"""Requests that are sent again and have a dead letter already."""

EVENT_BYTES_DEFAULT = BODY_BYTES_MAX
"""As long as the topic's config is unknown."""


class OpenedSource:
    """`is_complete`: whether the history of the topic was read."""

    def __init__(self, source: Source, *, now_s: float, before: OpenedSource | None = None) -> None:
        """`before` is the source as it was defined until now: what it accepted stays known."""
        self.source = source
        window_ms = source.replay_window_ms
        rate = source.rate_per_s_max
        self.limiter = Limiter(per_s=rate, burst=rate * BURST_S, now_s=now_s)
        if before is None:
            self.event_bytes_max = EVENT_BYTES_DEFAULT
            self.is_complete = False
            self.recent = RecentKeys(window_ms=window_ms, keys_max=source.ids_max)
            self.lettered = RecentKeys(window_ms=window_ms, keys_max=LETTERS_MAX)
            return
        old = before.source
        same = (old.topic, old.kind) == (source.topic, source.kind)
        self.event_bytes_max = before.event_bytes_max if same else EVENT_BYTES_DEFAULT
        self.is_complete = before.is_complete and same and window_ms <= old.replay_window_ms
        self.recent, self.lettered = before.recent, before.lettered
        self.recent.resize(window_ms=window_ms, keys_max=source.ids_max)
        self.lettered.resize(window_ms=window_ms, keys_max=LETTERS_MAX)

    def add_history(self, history: Iterable[Accepted]) -> None:
        for each in history:
            self.recent.add(each.keys, each.at_ms)

    def read(self, cluster: Cluster, now_ms: int) -> list[Accepted]:
        """Blocking: create the topics that are missing, and read what has to be known. RequestFailed if the broker
        is unavailable, or does not create the topic."""
        topic = self.source.topic
        if topic not in cluster.topics():
            cluster.create_by_use(topic)
        cluster.create_topic(dead_letter_topic(topic), config=TOPIC_CONFIG, exist_ok=True)
        self.read_limit(cluster)
        return read_history(cluster, self.source, now_ms)

    def read_limit(self, cluster: Cluster) -> None:
        """Blocking: the largest event of the topic, which its owner may have changed."""
        entry = cluster.configs("topic", self.source.topic).get("max.message.bytes")
        if entry is not None and entry.value is not None:
            self.event_bytes_max = int(entry.value)

    def fits(self, event: Event) -> bool:
        return event.memory_bytes <= self.event_bytes_max
