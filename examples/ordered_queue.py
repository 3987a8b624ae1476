"""An ordered queue: two workers, one of which is killed, and the steps of every order stay in order.

python examples/ordered_queue.py
"""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.queue import Message, Queue

ORDERS, STEPS = 20, ("reserve", "pay", "pack", "ship")

KILLED_WORKER = """
import sys, time
from headrace.queue import Queue

with Queue("orders", group="packers", bootstrap=sys.argv[1], ordered=True, prefetch=5) as queue:
    message = queue.get(timeout=30)
    print(f"has {message.key.decode()} at {message.value.decode()}", flush=True)
    time.sleep(1000)
"""


def main() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 2)])["orders"].result(30)
        # The messages of a worker that is killed wait for this time.
        alter = ["queue", "alter", "packers", "--config", "share.record.lock.duration.ms=2s"]
        subprocess.run(
            [sys.executable, "-m", "headrace", *alter, "--bootstrap", broker.bootstrap],
            check=True,
            stdout=subprocess.DEVNULL,
        )

        with Queue("orders", bootstrap=broker.bootstrap) as queue:
            for step in STEPS:
                for number in range(ORDERS):
                    queue.put_nowait(step, key=f"order {number}")
            queue.flush()

        command = [sys.executable, "-c", KILLED_WORKER, broker.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
            assert killed.stdout is not None
            print("a worker", killed.stdout.readline().strip(), "and is killed")
            killed.kill()

        done: dict[bytes | None, list[str]] = defaultdict(list)

        def handle(message: Message) -> None:
            done[message.key].append(message.value.decode())

        worker = Queue("orders", group="packers", bootstrap=broker.bootstrap, ordered=True)
        worker.run(handle, concurrency=8, count=ORDERS * len(STEPS))
        in_order = sum(tuple(steps) == STEPS for steps in done.values())
        print(f"{in_order} of {ORDERS} orders went through {', '.join(STEPS)}, in this order")


if __name__ == "__main__":
    main()
