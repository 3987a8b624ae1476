"""A sample of a topic's records: the first and the last ones of its partitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.kafka.errors import RequestFailed, request_failed

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

SAMPLE = 300
"""Records from the start and from the end of each partition: enough to meet every optional field of most topics."""

SAMPLED_PARTITIONS_MAX = 8

TIMEOUT_S = 30.0


class Sampled(Struct, frozen=True, kw_only=True):
    key: bytes | None
    value: bytes | None


def sample(cluster: Cluster, topic: str) -> Iterator[Sampled]:
    """The first and the last records of some partitions."""
    partitions = cluster.partitions(topic)[:SAMPLED_PARTITIONS_MAX]
    starts, ends = cluster.earliest(partitions), cluster.latest(partitions)
    for each in partitions:
        first, end = starts[each], ends[each]
        middle = min(first + SAMPLE, end)
        yield from _records(cluster, topic, each.number, first, middle)
        yield from _records(cluster, topic, each.number, max(middle, end - SAMPLE), end)


def _records(cluster: Cluster, topic: str, partition: int, start: int, end: int) -> Iterator[Sampled]:
    if start >= end:
        return
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        cluster.client_config(
            group_id="headrace-views",
            enable_auto_commit=False,
            isolation_level="read_committed",
            enable_partition_eof=True,
            fetch_wait_max_ms=10,
        )
    )
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise RequestFailed(f"reading {topic}: no response", hint="is the broker running?")
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return
                raise request_failed(error, f"reading {topic}")
            offset = message.offset()
            assert offset is not None
            if offset < end:
                yield Sampled(key=_bytes(message.key()), value=_bytes(message.value()))
            if offset >= end - 1:
                return
    finally:
        consumer.close()


def _bytes(found: Any) -> bytes | None:
    return found.encode() if isinstance(found, str) else found
