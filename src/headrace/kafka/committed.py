"""The committed records of a topic up to its end: of topics that are read as a whole, or their newest records."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import RequestFailed, request_failed

TIMEOUT_S = 60.0
"""How long a broker may be unavailable."""

GROUP = "headrace-reader"
"""A client needs the name of a group, although nothing is committed to it."""

_LOG = logging.getLogger("headrace.kafka.committed")
_LOG.addHandler(logging.NullHandler())


def read_committed(
    cluster: Cluster,
    topic: str,
    *,
    starts: Mapping[Partition, int] | None = None,
    newest: int | None = None,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Message]:
    """From these offsets, by default from the first; of each partition the `newest` offsets at most. Ends at the last
    stable offset of each partition: an open transaction hides what follows it. Uncommitted ones hide nothing."""
    if starts is None:
        starts = cluster.earliest(cluster.partitions(topic))
    if newest is not None:
        ends = cluster.latest(starts)
        starts = {each: max(start, ends[each] - newest) for each, start in starts.items()}
    consumer = Consumer(
        cluster.client_config(
            group_id=GROUP,
            enable_auto_commit=False,
            isolation_level=isolation,
            enable_partition_eof=True,
            # The end is reported by an empty response, which the broker would otherwise delay.
            fetch_wait_max_ms=10,
        ),
        logger=_LOG,
    )
    try:
        consumer.assign([TopicPartition(topic, each.number, start) for each, start in starts.items()])
        ended = 0
        while ended < len(starts):
            message = consumer.poll(timeout_s)
            if message is None:
                raise RequestFailed(f"reading {topic}: no response", hint="is the broker running?")
            error = message.error()
            if error is None:
                yield message
            elif error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            else:
                raise request_failed(error, f"reading {topic}")
    finally:
        consumer.close()
