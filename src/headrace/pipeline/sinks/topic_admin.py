"""The requests of a sink that writes to a topic: create it, read its limit, delete its records and the fence."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.kafka.retries import retry


def ensure_topic(cluster: Cluster, topic: str, config: Mapping[str, str]) -> int:
    """Create the topic if it does not exist; its `max.message.bytes`."""
    if topic not in cluster.topics():
        cluster.create_topic(topic, config=config, exist_ok=True)
    # Brokers learn of a new topic a moment after it was created.
    configs = retry(lambda: cluster.configs("topic", topic), timeout_s=cluster.timeout_s)
    return int(str(configs["max.message.bytes"].value))


def empty_topic(cluster: Cluster, topic: str) -> None:
    """Delete every record that the topic has now."""
    try:
        cluster.delete_records(cluster.latest(cluster.topics().get(topic, ())))
    except RequestFailed as error:
        if error.code == KafkaError.POLICY_VIOLATION:
            error.hint = "a compacted topic can't be emptied; delete it and let the job create it again"
        raise


def delete_fence(cluster: Cluster, writer: str) -> None:
    """Delete the groups that keep a writer's fence: its own name, and the names that start with it and a colon."""
    names = [name for name, _ in cluster.groups(internal=True)]
    ours = [name for name in names if name == writer or name.startswith(f"{writer}:")]
    cluster.delete_groups(ours, missing_ok=True)
