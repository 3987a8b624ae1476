"""Dead letters: a worker with a bug rejects messages, the dead letters show why, and after the fix they are redriven.

python examples/dead_letters.py
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from confluent_kafka import Producer

from headrace import Broker
from headrace.queue import DeadLetters, Queue, matching

ORDERS = [{"id": 1, "price": "12.50"}, {"id": 2, "price": "9,90"}, {"id": 3, "price": "free"}]
GIVE_UP_S = 30


def bill(order: dict[str, str]) -> float:
    return float(order["price"])


def bill_mended(order: dict[str, str]) -> float:
    return float(order["price"].replace(",", "."))


def work(bootstrap: str, charge: Callable[[dict[str, str]], float], count: int) -> None:
    with Queue("orders", group="billing", bootstrap=bootstrap) as queue:
        for _ in range(count):
            message = queue.get(timeout=GIVE_UP_S)
            assert message is not None
            try:
                order = json.loads(message.value)
                print(f"  order {order['id']}: charged {charge(order):.2f}")
                message.accept()
            except ValueError as error:
                print(f"  order {order['id']}: rejected")
                message.reject(str(error))


def wait_for(letters: DeadLetters, count: int) -> None:
    """The broker writes dead letters after it has confirmed the rejection."""
    deadline_s = time.monotonic() + GIVE_UP_S
    while letters.count() < count and time.monotonic() < deadline_s:
        time.sleep(0.02)


def main() -> None:
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for order in ORDERS:
            producer.produce("orders", value=json.dumps(order))
        producer.flush()
        del producer

        print("the worker with the bug:")
        work(broker.bootstrap, bill, len(ORDERS))

        letters = DeadLetters("billing", bootstrap=broker.bootstrap)
        wait_for(letters, 2)
        print(f"dead letters in {letters.topic}:")
        for letter in letters.read():
            print(f"  {letter.original}: {letter.reason}")

        done = letters.redrive(matching("9,90"))
        print(f"redriven: {done.redriven}, left: {done.left}")
        print("the fixed worker:")
        work(broker.bootstrap, bill_mended, done.redriven)


if __name__ == "__main__":
    main()
