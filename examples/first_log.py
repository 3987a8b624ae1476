"""Write records and read them back, with a broker inside this program.

python examples/first_log.py
"""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, Message, Producer

from headrace import Broker

PAGES = [("alice", "/home"), ("bob", "/home"), ("alice", "/cart"), ("alice", "/checkout"), ("bob", "/help")]


def write(bootstrap: str) -> None:
    def on_delivery(error: KafkaError | None, message: Message) -> None:
        # Called once the broker has acknowledged: the record is on disk at this offset.
        print(f"  stored at offset {message.offset()}" if error is None else f"  not stored: {error}")

    producer = Producer({"bootstrap.servers": bootstrap})
    for user, page in PAGES:
        producer.produce("clicks", key=user, value=page, on_delivery=on_delivery)
    producer.flush()


def read(bootstrap: str, *, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe(["clicks"])
    for message in consumer.consume(len(PAGES), timeout=30):
        print(f"  {message.offset()}: {message.key().decode()} saw {message.value().decode()}")
    consumer.close()


def main() -> None:
    with Broker() as broker:
        print(f"broker at {broker.bootstrap}")
        print("writing")
        write(broker.bootstrap)
        print("group billing reads")
        read(broker.bootstrap, group="billing")
        print("group audit reads the same records")
        read(broker.bootstrap, group="audit")


if __name__ == "__main__":
    main()
