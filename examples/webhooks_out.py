"""Orders as signed webhooks: the receiver is down at first, one order is rejected, and a redrive delivers it.

python examples/webhooks_out.py
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from confluent_kafka import Producer
from standardwebhooks import Webhook

from headrace import Broker
from headrace.queue import DeadLetters

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ORDERS = [{"order": 1, "amount": 40}, {"order": 2, "amount": 150}, {"order": 3, "amount": 200}]


class Shop(BaseHTTPRequestHandler):
    """Verifies each request, and has each order once: it knows the ids that it has had."""

    is_down, rejects = True, {3}
    orders: dict[str, int] = {}  # noqa: RUF012 (of the class: a request has an object of its own)
    failed = 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        order = Webhook(SECRET).verify(body, dict(self.headers))["order"]
        if Shop.is_down or order in Shop.rejects:
            Shop.failed += 1
            self.send_response(503 if Shop.is_down else 422)
        else:
            Shop.orders[self.headers["webhook-id"]] = order
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def webhook_out(*arguments: str, stdin: str = "") -> None:
    command = [sys.executable, "-m", "headrace", "webhook", "out", *arguments]
    subprocess.run(command, input=stdin, text=True, check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def delivering(*options: str) -> Iterator[None]:
    command = [sys.executable, "-m", "headrace", "webhook", "out", "run", *options]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as process:
        yield
        process.terminate()


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.05)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/orders"
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        where = ("--bootstrap", broker.bootstrap, "--data-dir", str(Path(folder)))
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for order in ORDERS:
            producer.produce("orders", json.dumps(order))
        producer.flush()
        target = ("--topic", "orders", "--to", url, "--filter", "amount > 100", "--from", "earliest")
        webhook_out("add", "shop", *target, "--allow-inside", "--secret-stdin", *where, stdin=SECRET)
        fast = ("--set", "retry_ms_first=200", "--set", "retry_factor=1", "--set", "rejected_attempts_max=4")
        with delivering(*fast, *where):
            wait_until(lambda: Shop.failed >= 2)
            print("the shop is down")
            Shop.is_down = False
            wait_until(lambda: bool(Shop.orders))
            print(f"the shop has {sorted(Shop.orders.values())}")

            letters = DeadLetters("headrace-webhook-shop", bootstrap=broker.bootstrap)
            wait_until(lambda: letters.count() == 1)
            for letter in letters.read():
                assert letter.value is not None
                print(f"dead letter: {letter.value.decode()}, {letter.reason.partition(',')[0]}")
            Shop.rejects = set()
            letters.redrive()
            wait_until(lambda: len(Shop.orders) == 2)
            print(f"the shop has {sorted(Shop.orders.values())}")
    server.shutdown()


if __name__ == "__main__":
    main()
