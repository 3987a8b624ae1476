"""Transactions by confluent-kafka, one after the other, in a separate program.

    python -m benchmarks.queue.transaction_client BOOTSTRAP TOPIC TRANSACTIONS RECORDS_EACH RECORD_BYTES

Each transaction sends its records and commits, which waits until all of them are written.
"""

from __future__ import annotations

import json
import sys
import time

from confluent_kafka import Producer

TIMEOUT_S = 60
WARMUP_TRANSACTIONS = 20


def main() -> None:
    bootstrap, topic, *counts = sys.argv[1:]
    transactions, records_each, record_bytes = map(int, counts)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-writer", "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    value = b"x" * record_bytes
    started_s = 0.0
    for number in range(WARMUP_TRANSACTIONS + transactions):
        if number == WARMUP_TRANSACTIONS:
            started_s = time.perf_counter()
        producer.begin_transaction()
        for _ in range(records_each):
            producer.produce(topic, value)
        producer.commit_transaction(TIMEOUT_S)
    took_s = time.perf_counter() - started_s
    print(json.dumps({"transactions_per_s": transactions / took_s}))


if __name__ == "__main__":
    main()
