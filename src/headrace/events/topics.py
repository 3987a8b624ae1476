"""Creates the topics of a store, and checks that those which exist keep every event."""

from __future__ import annotations

from headrace.events.errors import EventsError, StoreUnavailable
from headrace.events.records import Topics
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed

APPEAR_S_MAX = 15.0
"""A topic exists a moment after it was created, on each broker of a cluster."""

REPLY_RETENTION_MS = 3_600_000
"""A reply is for a sender that waits for it now."""

_KEEP_ALL = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def prepare_event_topics(cluster: Cluster, topics: Topics, partitions: int) -> int:
    """The topics of events, rejected commands and snapshots; the number of partitions of each.

    `partitions` counts only for a topic that does not exist.
    """
    with_events = _prepare(cluster, topics.events, partitions, _KEEP_ALL)
    _check_kept(cluster, topics.events)
    for topic, config in (
        (topics.rejected, _KEEP_ALL),
        (topics.snapshots, {"cleanup.policy": "compact"}),
    ):
        _check_count(topic, _prepare(cluster, topic, with_events, config), topics, with_events)
    return with_events


def prepare_command_topics(cluster: Cluster, topics: Topics, partitions: int) -> None:
    """The topics of commands and replies, with as many partitions as the events have."""
    for topic, config in (
        (topics.commands, {"cleanup.policy": "delete", "retention.ms": "-1"}),
        (topics.replies, {"cleanup.policy": "delete", "retention.ms": str(REPLY_RETENTION_MS)}),
    ):
        _check_count(topic, _prepare(cluster, topic, partitions, config), topics, partitions)


def prepare_topic(cluster: Cluster, topic: str, *, partitions: int) -> None:
    """One topic that keeps every record, with exactly this number of partitions."""
    found = _prepare(cluster, topic, partitions, _KEEP_ALL)
    if found != partitions:
        raise EventsError(
            f"{topic} has {found} partitions instead of {partitions}", hint="use a topic of its own for it"
        )
    _check_kept(cluster, topic)


def message_bytes_max(cluster: Cluster, topic: str) -> int:
    try:
        value = cluster.configs("topic", topic)["max.message.bytes"].value
    except RequestFailed as error:
        raise unavailable(error) from error
    return int(value or 0)


def unavailable(error: RequestFailed) -> StoreUnavailable:
    return StoreUnavailable(error.message, hint=error.hint)


def _prepare(cluster: Cluster, topic: str, partitions: int, config: dict[str, str]) -> int:
    try:
        found = cluster.topics().get(topic)
        if found is None:
            cluster.create_topic(topic, partitions=partitions, config=config, exist_ok=True)
            found = cluster.require_topics([topic], appear_s_max=APPEAR_S_MAX)[topic]
    except RequestFailed as error:
        raise unavailable(error) from error
    return len(found)


def _check_count(topic: str, count: int, topics: Topics, wanted: int) -> None:
    if count != wanted:
        raise EventsError(
            f"{topic} has {count} partitions, and {topics.events} has {wanted}",
            hint="an aggregate must have the same partition in both; create them with the same number",
        )


def _check_kept(cluster: Cluster, topic: str) -> None:
    try:
        configs = cluster.configs("topic", topic)
    except RequestFailed as error:
        raise unavailable(error) from error
    for name, wanted in _KEEP_ALL.items():
        value = configs[name].value if name in configs else wanted
        if value != wanted:
            raise EventsError(
                f"topic {topic} has {name}={value}, which deletes events",
                hint=f"`headrace topic alter {topic} --config {name}={wanted}`",
            )
