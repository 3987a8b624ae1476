"""Offsets as the numbers of a feed: a stream is a partition of a topic, as it was created once.

Every publisher of a topic numbers alike, also after a restart. So a receiver drops what two of them send, and reads
what it missed from the topic. A topic that is deleted and created again has new streams.
"""

from __future__ import annotations

from hashlib import blake2b

from headrace.kafka.cluster import Cluster, Partition


def streams_of(cluster: Cluster, topic: str) -> dict[Partition, int]:
    identity = cluster.topic_id(topic)
    return {each: stream_of(identity, each.number) for each in cluster.partitions(topic)}


def stream_of(topic_id: str, partition: int) -> int:
    return int.from_bytes(blake2b(f"{topic_id}-{partition}".encode(), digest_size=8).digest(), "big")
