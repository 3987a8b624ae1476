"""Where a new target starts in its topic: the offsets are committed when it is added, so that nothing that is written
before its first run is missing."""

from __future__ import annotations

from typing import Literal

from headrace.kafka.cluster import Cluster, Partition
from headrace.webhooks.outgoing.target import Target

Start = Literal["now", "earliest"]


def commit_start(cluster: Cluster, target: Target, start: Start) -> dict[Partition, int]:
    """The offsets at which it starts. A queue keeps its own position: it starts at its first message."""
    partitions = cluster.partitions(target.source)
    if target.queue:
        return {}
    offsets = cluster.latest(partitions) if start == "now" else cluster.earliest(partitions)
    cluster.commit(target.group, offsets)
    return offsets
