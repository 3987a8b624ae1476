"""The last records of the topic of a receiver."""

from __future__ import annotations

from typing import cast

from headrace.edges.direct.carried import carried_by
from headrace.edges.direct.resuming import Tail
from headrace.edges.event import Headers
from headrace.kafka.cluster import Cluster
from headrace.queue.partition_reader import read_partition


def read_tails(cluster: Cluster, topic: str, *, records: int) -> list[Tail]:
    """Of each partition, at most so many records."""
    partitions = cluster.partitions(topic)
    starts, ends = cluster.earliest(partitions), cluster.latest(partitions)
    tails = []
    for each in partitions:
        first = max(starts[each], ends[each] - records)
        found = read_partition(cluster.client_config(), topic, each.number, first, ends[each])
        headers = (cast("Headers", tuple(message.headers() or ())) for message in found)
        carried = [each for each in map(carried_by, headers) if each is not None]
        tails.append(Tail(carried=carried, is_whole=first == starts[each]))
    return tails
