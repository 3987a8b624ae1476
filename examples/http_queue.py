"""A worker without a client library: it receives messages over HTTP, and accepts or rejects them by their receipts.

python examples/http_queue.py
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

from headrace import Broker

EMAILS = [{"to": "ann@example.com"}, {"to": "nobody"}, {"to": "bob@example.com"}]


@contextlib.contextmanager
def gateway(bootstrap: str) -> Iterator[str]:
    """The address of `headrace gateway`."""
    command = [
        sys.executable,
        "-m",
        "headrace",
        "gateway",
        "--listen",
        "127.0.0.1:0",
        "--bootstrap",
        bootstrap,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
        process.terminate()


def post(url: str, body: Any = None) -> Any:
    data = b"" if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"Content-Type": "application/json"})) as response:
        return json.load(response)


def work(address: str) -> None:
    """Until no message comes within a second."""
    queue = f"{address}/queues/emails"
    while messages := post(f"{queue}/receive?group=senders&max=10&wait=1s")["messages"]:
        for message in messages:
            to = message["value"]["to"]
            if "@" in to:
                print(f"sent to {to}")
                post(f"{queue}/accept", {"receipts": [message["receipt"]]})
            else:
                print(f"rejected: {to}")
                post(f"{queue}/reject", {"receipts": [message["receipt"]], "reason": f"{to} is no address"})


def main() -> None:
    with Broker() as broker, gateway(broker.bootstrap) as address:
        post(f"{address}/topics/emails", EMAILS)
        work(address)
        with urlopen(f"{address}/topics/dlq.senders/records") as response:
            (letter,) = json.load(response)["records"]
    reason = next(each["value"] for each in letter["headers"] if each["name"] == "__dlq.errors.message")
    print(f"a dead letter: {reason}")


if __name__ == "__main__":
    main()
