"""Reads the records of a partition between two offsets, without a position that is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka import Message as KafkaMessage

from headrace.queue.errors import QueueError

IDLE_S_MAX = 20.0
"""A broker delivers records that exist within milliseconds; this is for a broker that hangs."""


def read_partition(
    client_config: Mapping[str, Any], topic: str, number: int, first: int, end: int
) -> Iterator[KafkaMessage]:
    """The committed records from the offset `first` up to `end`, which is exclusive."""
    if first >= end:
        return
    consumer = Consumer(
        {
            "group.id": topic,  # the client requires one, and nothing is committed
            **client_config,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, first)])
        idle_since_s = time.monotonic()
        while time.monotonic() < idle_since_s + IDLE_S_MAX:
            message = consumer.poll(0.5)
            if message is None:
                continue
            idle_since_s = time.monotonic()
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise QueueError(f"{topic} can't be read: {error.str()}")
            # The last offsets may have no records: transaction markers, or records that compaction removed.
            offset = message.offset() or 0
            if error is None and offset < end:
                yield message
            if offset >= end - (error is None):
                return
        raise QueueError(f"{topic} can't be read: no record within {IDLE_S_MAX} s")
    finally:
        consumer.close()
