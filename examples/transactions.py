"""Consume, process, produce, exactly once: results and offsets are committed together, or not at all.

python examples/transactions.py

A worker reads orders, writes invoices, and crashes several times. Every order has one invoice.
"""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import Broker

ORDERS = 20
BATCH = 5
READ_COMMITTED = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}


def write_orders(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(ORDERS):
        producer.produce("orders", value=f"order {number}")
    producer.flush()


class Crashed(Exception):
    """A crash of the worker."""


def work(bootstrap: str, crashes_at: int | None) -> None:
    """Turn orders into invoices, one transaction per batch."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "invoicing",
            "enable.auto.commit": False,
            **READ_COMMITTED,
        }
    )
    consumer.subscribe(["orders"])
    # The same id for every instance of this worker: a new one fences the old one and aborts its transaction.
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "invoicing-0", "log_level": 0})
    producer.init_transactions(30)
    try:
        while messages := consumer.consume(BATCH, timeout=10):
            producer.begin_transaction()
            for message in messages:
                producer.produce("invoices", value=(message.value() or b"").replace(b"order", b"invoice"))
                if message.offset() == crashes_at:
                    producer.flush()  # some invoices are already in the log
                    raise Crashed
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            print(f"  committed up to order {positions[0].offset - 1}")
            if positions[0].offset == ORDERS:
                return
    finally:
        consumer.close()


def count_invoices(bootstrap: str, isolation_level: str) -> int:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "counting",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition("invoices", 0, 0)])
    count = 0
    while (message := consumer.poll(30)) is not None and message.error() is None:
        count += 1
    consumer.close()
    return count


def main() -> None:
    with Broker() as broker:
        write_orders(broker.bootstrap)
        for crashes_at in (7, 13, None):
            print("a worker starts")
            try:
                work(broker.bootstrap, crashes_at)
            except Crashed:
                print("  it crashed in a transaction")
        print(f"{count_invoices(broker.bootstrap, 'read_uncommitted')} invoices were written")
        print(f"{count_invoices(broker.bootstrap, 'read_committed')} of them count, for {ORDERS} orders")


if __name__ == "__main__":
    main()
