"""Requests and replies through a queue: a worker is killed with a request, and another one replies.

python examples/queue_requests.py
"""

from __future__ import annotations

import subprocess
import sys
import threading

from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.queue import HandlerFailed, Message, Queue, RequestTimedOut

PRICES = {"tea": 320, "milk": 110}

KILLED_WORKER = """
import sys, time
from headrace.queue import Queue

with Queue("prices", group="pricing", bootstrap=sys.argv[1]) as queue:
    print("has the request for", queue.get(timeout=30).value.decode(), flush=True)
    time.sleep(1000)
"""


def price(message: Message) -> str:
    item, _, count = message.value.decode().partition(" x ")
    return str(PRICES[item] * int(count))


def main() -> None:
    with Broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("prices", 1)])["prices"].result(30)

        with Queue("prices", bootstrap=broker.bootstrap) as queue:
            try:
                queue.request("tea x 1", timeout=0.2)
            except RequestTimedOut as error:
                print(error)

            reply = queue.request_nowait("tea x 2", timeout=30)
            command = [sys.executable, "-c", KILLED_WORKER, broker.bootstrap]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
                assert killed.stdout is not None
                print("a worker", killed.stdout.readline().strip(), "and is killed")
                killed.kill()

            worker = Queue("prices", group="pricing", bootstrap=broker.bootstrap)
            thread = threading.Thread(target=worker.run, args=(price,), kwargs={"reject_on": LookupError})
            thread.start()
            print("another one replies", reply.result().value.decode())

            replies = [queue.request_nowait(f"milk x {count}", timeout=30) for count in range(100)]
            print("100 replies:", sum(int(each.result().value) for each in replies))
            try:
                queue.request("gold x 1", timeout=30)
            except HandlerFailed as error:
                print(error)
            worker.stop()
            thread.join()


if __name__ == "__main__":
    main()
