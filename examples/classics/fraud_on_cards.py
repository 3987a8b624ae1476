"""Fraud on cards: a thief tries a stolen card with small payments, and then buys.

python -m examples.classics.fraud_on_cards

A row pattern finds two or more small payments and then a large one, of the same card, within ten minutes. A match is
emitted when no payment to come can change it.
"""

from __future__ import annotations

from examples.classics.stage import stage
from headrace import operators as op

PAYMENTS = [
    ("4711", "10:00:00", 0.50),
    ("4711", "10:01:00", 0.75),
    ("4711", "10:04:00", 899.00),  # fraud
    ("1234", "10:00:00", 0.20),
    ("1234", "10:03:00", 24.90),
    ("1234", "10:05:00", 650.00),  # one small payment, and another one after it
    ("5555", "10:00:00", 0.10),
    ("5555", "10:01:00", 0.10),
    ("5555", "10:30:00", 700.00),  # too late
]


def main() -> None:
    with stage("fraud") as on:
        on.send("payments", [{"card": card, "at": at, "amount": amount} for card, at, amount in PAYMENTS])
        payments = on.read("payments", "card STRING, at TIMESTAMP, amount DOUBLE")
        fraud = payments.transform(
            op.MatchRecognize("""
                PARTITION BY card ORDER BY at
                MEASURES COUNT(small.*) AS probes, big.amount AS loss, MATCH_ROWTIME() AS at
                PATTERN (small{2,} big) WITHIN INTERVAL '10' MINUTE
                DEFINE small AS amount < 1, big AS amount > 500""")
        )
        for row in on.run("fraud", fraud, ["card", "at"]):
            print(f"card {row['card']}: {row['probes']} small payments, then {row['loss']:.2f}")


if __name__ == "__main__":
    main()
