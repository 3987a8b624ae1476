"""Topics of events that a benchmark writes once and all sides read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from confluent_kafka import Producer

from benchmarks.broker.load import check_end_offset, create_topic

PARTITIONS = 2
BATCH = 10_000

Message = dict[str, bytes]
"""A `value`, and optionally a `key`."""


def write_topic(bootstrap: str, topic: str, messages: Iterable[Message], count: int) -> None:
    """Write the same log in every run. Batches go to the partitions in turn, messages with a key by their key."""
    create_topic(bootstrap, topic, partitions=PARTITIONS)
    produce(bootstrap, topic, messages)
    check_end_offset(bootstrap, topic, count, partitions=PARTITIONS)


def produce(bootstrap: str, topic: str, messages: Iterable[Message]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 20,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )
    remaining = iter(messages)
    for number in itertools.count():
        batch = list(itertools.islice(remaining, BATCH))
        if not batch:
            return
        producer.produce_batch(topic, batch, partition=-1 if "key" in batch[0] else number % PARTITIONS)
        producer.flush()
