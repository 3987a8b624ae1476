"""A topic as a table: compaction keeps the last value of every key, and a tombstone deletes a key.

python examples/compacted_table.py

The settings here make compaction happen within a second; a real topic keeps the defaults and is compacted when half
of it is new.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker

TOPIC = "balances"
USERS = ["alice", "bob", "carol"]
CHANGES_PER_USER = 200
COMPACT_AT_ONCE = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",  # only closed segments are compacted: close them early
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",  # the next pass may remove a tombstone
}
GIVE_UP_S = 30


def write_changes(bootstrap: str) -> None:
    # One batch per record; a real producer sends larger batches, and compaction decodes them.
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 10})
    for amount in range(CHANGES_PER_USER):
        for user in USERS:
            producer.produce(TOPIC, key=user, value=str(amount))
    producer.produce(TOPIC, key="bob", value=None)  # a tombstone deletes bob
    producer.flush()


def fill_segment(bootstrap: str) -> None:
    """The active segment is never compacted: write until the changes are in an older one."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(TOPIC, key="filler", value=b"." * 4096)
    producer.flush()


def read_all(bootstrap: str) -> list[tuple[int, str, str | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "table", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    records = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        value = message.value()
        records.append((message.offset(), message.key().decode(), None if value is None else value.decode()))
    consumer.close()
    return [each for each in records if each[1] != "filler"]


def main() -> None:
    with Broker(compaction_interval_ms=100) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACT_AT_ONCE)])[TOPIC].result(30)
        write_changes(broker.bootstrap)
        print(f"{CHANGES_PER_USER * len(USERS) + 1} records written, the last one a tombstone for bob")
        deadline_s = time.monotonic() + GIVE_UP_S
        while len(records := read_all(broker.bootstrap)) > 2 and time.monotonic() < deadline_s:
            fill_segment(broker.bootstrap)
            time.sleep(0.2)
        print(f"{len(records)} left after compaction, each at its old offset:")
        for offset, user, value in records:
            print(f"  {offset}: {user} = {value}")


if __name__ == "__main__":
    main()
