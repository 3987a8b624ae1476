"""A worker that runs until it is stopped: eight threads, acknowledged by the outcome of the handler.

python examples/queue_run.py

Here the handler of the last image sends the SIGTERM itself, as a service manager would.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections import Counter

from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.queue import Message, Queue

IMAGES = 40


class NotAnImage(Exception):
    """A permanent error: the message becomes a dead letter immediately."""


class Thumbnails:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def make(self, message: Message) -> None:
        number = int(message.value.split()[-1])
        if number % 10 == 9:
            self._count("not an image")
            raise NotAnImage(f"image {number} is a spreadsheet")
        if number % 4 == 0 and message.delivery_count == 1:
            self._count("storage was busy")
            raise ConnectionError("storage is busy")  # released, and redelivered
        self._count("made")

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.counts[outcome] += 1
            if self.counts["made"] + self.counts["not an image"] == IMAGES:
                os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    logging.getLogger("headrace.queue").setLevel(logging.ERROR)  # tracebacks of failed handlers are warnings
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("images", 1)])["images"].result(30)

        with Queue("images", bootstrap=broker.bootstrap) as queue:
            for number in range(IMAGES):
                queue.put_nowait(f"image {number}")
            queue.flush()
        print(f"{IMAGES} images are stored")

        thumbnails = Thumbnails()
        worker = Queue("images", group="thumbnails", bootstrap=broker.bootstrap)
        worker.run(thumbnails.make, concurrency=8, reject_on=NotAnImage)
        for outcome, count in sorted(thumbnails.counts.items()):
            print(f"{outcome}: {count}")
        print("stopped by SIGTERM, nothing is lost")


if __name__ == "__main__":
    main()
