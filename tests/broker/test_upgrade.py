"""A data folder that an earlier version wrote is read: records, transactions, committed offsets, queues.

`data/before-0.1.0.tar.gz` was written by revision 77ac3d4 and stopped cleanly: orders with a committed and an aborted
transaction, a compacted topic, a group that has committed offset 3, a queue with two accepted messages, one rejected
and one released.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker
from headrace.queue import Queue
from headrace.queue.dead_letters import DeadLetters

OLD_DATA = Path(__file__).parent / "data" / "before-0.1.0.tar.gz"
TIMEOUT_S = 30.0
LONG_MS = 2**53


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    with tarfile.open(OLD_DATA) as archive:
        archive.extractall(tmp_path, filter="data")
    # The folder grows older than any time that an offset is kept for.
    with Broker(str(tmp_path / "data"), offsets_retention_ms=LONG_MS) as broker:
        yield broker.bootstrap


def read(bootstrap: str, topic: str, partition: int, end: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "log_level": 0,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    texts: list[str] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        if message.error() is not None:
            break
        texts.append((message.value() or b"").decode())
    assert consumer.position([TopicPartition(topic, partition)])[0].offset == end
    consumer.close()
    return texts


def test_records_and_transactions_of_an_older_version_are_read(bootstrap: str) -> None:
    assert read(bootstrap, "orders", 0, end=9) == [f"order {n}" for n in range(0, 10, 2)] + ["committed"]
    assert read(bootstrap, "orders", 1, end=5) == [f"order {n}" for n in range(1, 10, 2)]


def test_producers_append_after_the_records_of_an_older_version(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "transactional.id": "payments"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("orders", "another", partition=1)
    producer.commit_transaction(TIMEOUT_S)
    assert read(bootstrap, "orders", 1, end=7)[-1] == "another"


def test_offsets_that_were_committed_to_an_older_version_are_loaded(bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "billing", "log_level": 0})
    (committed,) = consumer.committed([TopicPartition("orders", 0)], TIMEOUT_S)
    consumer.close()
    assert committed.offset == 3


def test_queue_of_an_older_version_delivers_unfinished_records_and_has_its_letters(bootstrap: str) -> None:
    (letter,) = DeadLetters("senders", bootstrap=bootstrap).read()
    assert (letter.value, letter.reason) == (b"email 2", "no such mailbox")
    with Queue("emails", group="senders", bootstrap=bootstrap) as queue:
        message = queue.get(timeout=TIMEOUT_S)
        assert message is not None
        assert (message.value, message.delivery_count) == (b"email 3", 2)
        message.accept()
        queue.flush()
        assert queue.get(timeout=0.2) is None
