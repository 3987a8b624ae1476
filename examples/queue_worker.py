"""A queue: three workers share the messages of one topic. Temporary failures are redelivered, bad messages rejected.

python examples/queue_worker.py

A callback of the producer reports every stored message, without waiting for each.
"""

from __future__ import annotations

import threading
from collections import Counter

from confluent_kafka import KafkaError, Producer

from headrace import Broker
from headrace.queue import Message, Queue

EMAILS = 30
WORKERS = 3


class ServerBusy(Exception):
    """A temporary error: retry later."""


class NoSuchMailbox(Exception):
    """A permanent error."""


def send_email(message: Message) -> None:
    """Every tenth address is wrong, and the server is busy at the first attempt of every third."""
    number = int(message.value.split()[-1])
    if number % 10 == 9:
        raise NoSuchMailbox(f"no mailbox {number}")
    if number % 3 == 0 and message.delivery_count == 1:
        raise ServerBusy


def produce(bootstrap: str) -> None:
    stored = 0

    def on_delivery(error: KafkaError | None, _message: object) -> None:
        nonlocal stored
        stored += error is None

    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(EMAILS):
        producer.produce("emails", value=f"email {number}", on_delivery=on_delivery)
        producer.poll(0)  # runs the callbacks of stored messages
    producer.flush()
    print(f"{stored} messages are stored")


class Senders:
    """Workers of one group, each with its own queue, as on several machines."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._is_done = threading.Event()
        self.counts: Counter[str] = Counter()
        self.done_by: Counter[str] = Counter()

    def run(self) -> None:
        threads = [threading.Thread(target=self._work, args=(f"worker {n}",)) for n in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, name: str) -> None:
        with Queue("emails", group="senders", bootstrap=self._bootstrap, prefetch=1) as queue:
            while not self._is_done.is_set():
                message = queue.get(timeout=0.1)
                if message is not None:
                    self._count(name, self._handle(message))

    def _handle(self, message: Message) -> str:
        try:
            send_email(message)
        except ServerBusy:
            message.release()
            return "released"
        except NoSuchMailbox as error:
            message.reject(str(error))
            return "rejected"
        message.accept()
        return "accepted"

    def _count(self, name: str, outcome: str) -> None:
        with self._lock:
            self.counts[outcome] += 1
            self.done_by[name] += 1
            if self.counts["accepted"] + self.counts["rejected"] == EMAILS:
                self._is_done.set()


def main() -> None:
    with Broker() as broker:
        produce(broker.bootstrap)
        senders = Senders(broker.bootstrap)
        senders.run()
        for outcome in ("accepted", "released", "rejected"):
            print(f"{outcome}: {senders.counts[outcome]}")
        print(f"{len(senders.done_by)} workers; each message was locked by one of them at a time")


if __name__ == "__main__":
    main()
