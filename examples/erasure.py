"""A person is erased from a compacted topic, and from a log that keeps everything by destroying their key.

python examples/erasure.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.erasure import Eraser, PersonKeys, Subject
from headrace.shredding import FieldCipher, KeyedCipher, KeyStore, create_master_key


def read_values(bootstrap: str, topic: str) -> list[bytes]:
    """All values that a reader gets, from the first offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        if (value := message.value()) is not None:
            values.append(value)
    consumer.close()
    return values


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker(compaction_interval_ms=200) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        users = NewTopic("users", 1, config={"cleanup.policy": "compact"})
        orders = NewTopic("orders", 1, config={"retention.ms": "-1"})
        for future in admin.create_topics([users, orders]).values():
            future.result()

        # The log of orders is kept forever, so what it says of a person is encrypted with the person's key.
        create_master_key(Path(folder) / "master.key")
        keys = KeyStore(Path(folder) / "keys.db", master=Path(folder) / "master.key")
        cipher = FieldCipher(KeyedCipher(keys), subject="user", fields=["address"])
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for user, address in (("ada", "Dorset Street"), ("bob", "Elm Street"), ("ada", "St James's Square")):
            producer.produce("users", key=user, value=json.dumps({"name": user, "address": address}))
            producer.produce(
                "orders", value=cipher.encrypt({"user": user, "item": "lamp", "address": address})
            )
        producer.flush()
        print(f"users has {len(read_values(broker.bootstrap, 'users'))} values before")

        # The key store is a place: the erasure is complete when the key is destroyed there too.
        place = PersonKeys(Path(folder) / "keys.db")
        with Eraser.connect(broker.bootstrap, places=[place]) as eraser:
            request = eraser.request(Subject(key="ada"), ["users"])
            erasure = eraser.work(request.id, wait_s=60)
        (proof,) = erasure.topics
        print(f"erasure is {erasure.state}: {proof.records_found} found, {proof.values_left} left")

        for value in read_values(broker.bootstrap, "users"):
            print("users: ", json.loads(value))
        for value in read_values(broker.bootstrap, "orders"):
            print("orders:", cipher.decrypt(value))


if __name__ == "__main__":
    main()
