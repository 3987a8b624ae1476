"""A sender signs its webhooks and repeats them; the gateway verifies them and writes each once.

python examples/webhooks_in.py
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from confluent_kafka import Consumer
from standardwebhooks import Webhook

from headrace import Broker

HEADRACE = [sys.executable, "-m", "headrace"]


def add_source(data_dir: str) -> str:
    """The secret, which the sender needs."""
    command = ["webhook", "in", "add", "partner", "--topic", "orders", "--generate-secret"]
    done = subprocess.run(
        [*HEADRACE, *command, "--key-field", "customer", "--data-dir", data_dir, "--format", "json"],
        capture_output=True,
        check=True,
    )
    secret: str = json.loads(done.stdout)["secret"]
    return secret


@contextlib.contextmanager
def gateway(bootstrap: str, data_dir: str) -> Iterator[str]:
    command = ["gateway", "--listen", "127.0.0.1:0", "--data-dir", data_dir, "--bootstrap", bootstrap]
    with subprocess.Popen([*HEADRACE, *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"{process.stdout.readline().split()[-1]}/webhooks/partner"
        process.terminate()


def send(url: str, message_id: str, body: str, *, secret: str) -> None:
    now = datetime.now(UTC)
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, now, body),
    }
    try:
        with urlopen(Request(url, data=body.encode(), headers=headers)) as response:
            print(f"{message_id}: {response.status} {json.load(response)['result']}")
    except HTTPError as error:
        print(f"{message_id}: {error.code} {json.load(error)['message']}")


def show(bootstrap: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "show", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while (message := consumer.poll(5)) is not None:
        print(f"  {topic}: {message.key()} {message.value()}")
    consumer.close()


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as data_dir:
        secret = add_source(data_dir)
        order = '{"customer": "ada", "item": "tea"}'
        with gateway(broker.bootstrap, data_dir) as url:
            send(url, "order-1", order, secret=secret)
            send(url, "order-1", order, secret=secret)
            send(url, "order-2", '{"item": "milk"}', secret=secret)
            send(url, "order-3", order, secret="whsec_c29tZSBvdGhlciBzZWNyZXQ=")
        with gateway(broker.bootstrap, data_dir) as url:
            print("after a restart")
            send(url, "order-1", order, secret=secret)
        show(broker.bootstrap, "orders")
        show(broker.bootstrap, "dlq.orders")


if __name__ == "__main__":
    main()
