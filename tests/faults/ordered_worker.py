"""A worker of an ordered queue that notes what it does in a file, and may be killed at any moment.

    python -m tests.faults.ordered_worker BOOTSTRAP TOPIC GROUP FILE SEED

A line has an event, the worker, the key, the number of the message, and the monotonic time, which all processes share.
"""

from __future__ import annotations

import os
import random
import sys
import time

from headrace.queue import AcknowledgementLost, Queue, QueueError

WORK_S_MAX = 0.008
RELEASED_SHARE = 0.1


def main() -> None:
    bootstrap, topic, group, file, seed = sys.argv[1:]
    chance = random.Random(int(seed))
    notes = os.open(file, os.O_WRONLY | os.O_APPEND)
    me = os.getpid()

    def note(event: str, key: str, number: str) -> None:
        os.write(notes, f"{event} {me} {key} {number} {time.monotonic():.6f}\n".encode())

    while True:
        try:
            with Queue(topic, group=group, bootstrap=bootstrap, prefetch=8, config={"log_level": 0}) as queue:
                for message in queue:
                    place = (message.key or b"").decode(), message.value.decode()
                    note("start", *place)
                    time.sleep(chance.random() * WORK_S_MAX)
                    if chance.random() < RELEASED_SHARE:
                        note("released", *place)
                        message.release()
                        continue
                    note("end", *place)
                    message.accept()
                    try:
                        queue.flush(2.0)
                    except AcknowledgementLost:
                        continue
                    note("accepted", *place)
        except QueueError:
            time.sleep(0.1)  # the broker is being restarted


if __name__ == "__main__":
    main()
