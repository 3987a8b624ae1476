"""Reads the topics of all alerts with one client, from the positions that the log has.

An alert has positions of its own. Alerts on the same topic share its records: the client reads from the lowest
position, and each alert skips what it has had.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage
from msgspec import Struct

from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.errors import request_failed

GROUP = "headrace-alerts"
"""A client needs the name of a group, although nothing is committed to it."""

_TRANSIENT = (
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
"""The client retries these by itself."""

_LOG = logging.getLogger("headrace.alerts.kafka")
_LOG.addHandler(logging.NullHandler())


class Read(Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    at_ms: int
    value: bytes | None
    problem: str = ""
    """why the value can't be read"""


class Corrected(Struct, frozen=True, kw_only=True):
    """A position that has no record any more."""

    position: int
    missed: int
    """records that were deleted before they were read; 0 if the topic is a new one of the same name"""


class Streams:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._consumer = Consumer(
            cluster.client_config(
                group_id=GROUP,
                enable_auto_commit=False,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_partition_eof=True,
                queued_max_messages_kbytes=16 * 1024,
            ),
            logger=_LOG,
        )
        self._behind: dict[Partition, int] = {}
        """Partitions with records that were not read, and the newest time that was read of each."""
        self._newest_ms: dict[Partition, int] = {}
        self._known: dict[str, int] = {}

    def close(self) -> None:
        self._consumer.close()

    def partitions(self, topics: Iterable[str]) -> dict[str, list[Partition]]:
        """Of those topics that exist."""
        wanted = set(topics)
        return {name: found for name, found in self._cluster.topics().items() if name in wanted}

    def correct(self, positions: Mapping[Partition, int]) -> dict[Partition, Corrected]:
        """Positions before the first record, or after the end."""
        firsts, ends = self._cluster.earliest(positions), self._cluster.latest(positions)
        corrected = {}
        for partition, position in positions.items():
            if position < firsts[partition]:
                corrected[partition] = Corrected(
                    position=firsts[partition], missed=firsts[partition] - position
                )
            elif position > ends[partition]:
                corrected[partition] = Corrected(position=firsts[partition], missed=0)
        return corrected

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._behind = dict.fromkeys(positions, 0)
        self._newest_ms = {
            each: newest_ms for each, newest_ms in self._newest_ms.items() if each in positions
        }
        self._consumer.assign(
            [TopicPartition(each.topic, each.number, position) for each, position in positions.items()]
        )

    def read(self, count: int, timeout_s: float) -> list[Read]:
        """The next records, at most so many; empty if there are none within the time."""
        found = []
        for message in self._consumer.consume(count, timeout_s):
            read = self._taken(message)
            if read is not None:
                found.append(read)
        return found

    def _taken(self, message: KafkaMessage) -> Read | None:
        partition = Partition(message.topic() or "", message.partition() or 0)
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._behind.pop(partition, None)
            elif error.code() not in _TRANSIENT and not error.retriable():
                raise request_failed(error, f"reading {partition}")
            return None
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_NOT_AVAILABLE:
            at_ms = 0
        newest_ms = max(at_ms, self._newest_ms.get(partition, 0))
        self._newest_ms[partition] = self._behind[partition] = newest_ms
        return Read(partition.topic, partition.number, message.offset() or 0, at_ms, message.value())

    def time_ms(self, topic: str, now_ms: int) -> int:
        """The time up to which the records of a topic were read: now, if all were."""
        behind = [newest_ms for partition, newest_ms in self._behind.items() if partition.topic == topic]
        return min((*behind, now_ms))
