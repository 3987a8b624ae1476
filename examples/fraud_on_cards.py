"""Fraud on cards: a thief tries a stolen card with small payments, and then buys.

python examples/fraud_on_cards.py

A row pattern finds two or more small payments and then a large one, of the same card, within ten minutes. A match is
emitted when no payment to come can change it.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

PAYMENTS = [
    ("4711", "10:00", 0.50),
    ("4711", "10:01", 0.75),
    ("4711", "10:04", 899.00),  # fraud
    ("1234", "10:00", 0.20),
    ("1234", "10:03", 24.90),
    ("1234", "10:05", 650.00),  # one small payment, and another one after it
    ("5555", "10:00", 0.10),
    ("5555", "10:01", 0.10),
    ("5555", "10:30", 700.00),  # too late
]


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for card, time, amount in PAYMENTS:
            payment = {"card": card, "at": f"2026-03-01T{time}:00Z", "amount": amount}
            producer.produce("payments", key=card, value=json.dumps(payment))
        producer.flush()
        spark = session("fraud", bootstrap=broker.bootstrap, data_dir=folder)
        payments = read_topic(
            spark,
            "payments",
            schema="card STRING, at TIMESTAMP, amount DOUBLE",
            event_time="at",
            watermark="1 minute",
        )
        fraud = payments.transform(
            op.MatchRecognize("""
                PARTITION BY card ORDER BY at
                MEASURES COUNT(small.*) AS probes, big.amount AS loss, MATCH_ROWTIME() AS at
                PATTERN (small{2,} big) WITHIN INTERVAL '10' MINUTE
                DEFINE small AS amount < 1, big AS amount > 500""")
        )
        Job("fraud", fraud, Table("fraud", key=["card", "at"]), mode="batch").start().wait()
        with sqlite3.connect(Path(folder) / "views.db") as views:
            for card, probes, loss in views.execute("SELECT card, probes, loss FROM fraud ORDER BY card"):
                print(f"card {card}: {probes} small payments, then {loss:.2f}")
        spark.stop()


if __name__ == "__main__":
    main()
