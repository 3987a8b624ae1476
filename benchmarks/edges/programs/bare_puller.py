"""What a team writes first: messages of ZeroMQ, produced with confluent-kafka. Nothing is counted, and nothing bounded.

`python -m benchmarks.edges.programs.bare_puller BOOTSTRAP ADDRESS`
"""

from __future__ import annotations

import sys

import zmq
from confluent_kafka import Producer

from benchmarks.edges.bench import TOPIC


def main() -> None:
    bootstrap, address = sys.argv[1:]
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "queue.buffering.max.messages": 10_000_000,
        }
    )
    with zmq.Context() as context, context.socket(zmq.PULL) as puller:
        puller.connect(address)
        print("ready", file=sys.stderr, flush=True)
        while True:
            if puller.poll(100):
                producer.produce(TOPIC, puller.recv())
            producer.poll(0)


if __name__ == "__main__":
    main()
