"""Writing and reading whole topics with confluent-kafka, to prepare and check the work of other clients."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

# Messages are `Any` in these tests: the library's types make every key, value and error optional, and a test
# that finds None where it wants bytes fails anyway.

PATIENCE_S = 60
"""How long a test waits for something that normally takes milliseconds, before it fails."""


PASSING = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
"""Errors of a broker for a topic that was just created. Clients retry."""


def write(bootstrap: str, topic: str, records: Iterable[Mapping[str, Any]], **settings: Any) -> list[Any]:
    """Produce `records` (the arguments of `Producer.produce`); what was delivered, in that order."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, **_dotted(settings)})
    delivered: list[Any] = []
    failed: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        if error is None:
            delivered.append(message)
        else:
            failed.append(error)

    for record in records:
        producer.produce(topic, on_delivery=on_delivery, **record)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0, "some records were neither delivered nor rejected"
    assert not failed, f"{len(failed)} records failed, the first with {failed[0]}"
    return delivered


def write_values(bootstrap: str, topic: str, values: Iterable[bytes], **settings: Any) -> list[Any]:
    return write(bootstrap, topic, ({"value": value} for value in values), **settings)


def read_to_end(bootstrap: str, topic: str, **settings: Any) -> list[Any]:
    """All records of all partitions of `topic`, up to the end as it is now."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reads-to-the-end-and-never-commits",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,  # no more records to wait for
            **_dotted(settings),
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        return _until_all_ended(consumer, set(partitions))
    finally:
        consumer.close()


def read_committed(bootstrap: str, topic: str) -> list[Any]:
    """The records that a reader of committed data sees, once every transaction has ended.

    Apache Kafka confirms a commit before readers see the committed records.
    """
    _await_decisions(bootstrap, topic)
    return read_to_end(bootstrap, topic, isolation_level="read_committed")


def _await_decisions(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partitions = admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    latest = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    deadline_s = time.monotonic() + PATIENCE_S
    while latest:
        stable, last = (
            {
                place.partition: answer.result(PATIENCE_S).offset
                for place, answer in admin.list_offsets(latest, isolation_level=level).items()
            }
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
        if stable == last:
            return
        assert time.monotonic() < deadline_s, f"transactions stay open: committed up to {stable} of {last}"
        time.sleep(0.02)


def _until_all_ended(consumer: Consumer, open_partitions: set[int]) -> list[Any]:
    messages: list[Any] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while open_partitions:
        assert time.monotonic() < deadline_s, (
            f"no end of partitions {open_partitions} after {len(messages)} records"
        )
        for message in consumer.consume(10_000, timeout=0.2):
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            elif error.code() not in PASSING:
                raise AssertionError(f"the consumer failed: {error}")
    return messages


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in settings.items()}
