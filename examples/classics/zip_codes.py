"""Re-keying: orders by customer become orders by ZIP code, so that all orders of a place are in one partition.

python -m examples.classics.zip_codes
"""

from __future__ import annotations

import json

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.classics.stage import stage
from headrace.pipeline import Job
from headrace.pipeline.sinks import Topic

ORDERS = [
    {"customer": f"c{number}", "zip": f"{10000 + number % 3}", "at": f"10:{number:02}:00"}
    for number in range(12)
]


def main() -> None:
    with stage("zip-codes") as on:
        on.send("orders", ORDERS)
        orders = on.read("orders", "customer STRING, zip STRING, at TIMESTAMP")
        admin = AdminClient({"bootstrap.servers": on.bootstrap})
        admin.create_topics([NewTopic("orders-by-zip", num_partitions=4)])["orders-by-zip"].result()
        Job("rekey", orders, Topic("orders-by-zip", key="zip"), mode="batch").start().wait()

        consumer = Consumer(
            {"bootstrap.servers": on.bootstrap, "group.id": "show", "enable.partition.eof": True}
        )
        consumer.assign([TopicPartition("orders-by-zip", number, 0) for number in range(4)])
        partitions: dict[str, set[int]] = {}
        count = 0
        while count < len(ORDERS):
            message = consumer.poll(30)
            if message is None or message.error() is not None:
                continue
            count += 1
            zip_code = json.loads(message.value() or b"")["zip"]
            assert message.key() == zip_code.encode()
            partitions.setdefault(zip_code, set()).add(message.partition() or 0)
        consumer.close()
        for zip_code, found in sorted(partitions.items()):
            print(f"{zip_code}: all orders in {len(found)} partition")


if __name__ == "__main__":
    main()
