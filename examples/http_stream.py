"""Orders over HTTP: written in one request, followed as server-sent events, and resumed after a lost connection.

python examples/http_stream.py
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from urllib.request import Request, urlopen

from headrace import Broker

ORDERS = [{"order": number, "item": item} for number, item in enumerate(["tea", "milk", "bread", "salt"])]


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


def write(address: str, orders: list[dict[str, object]]) -> None:
    """Returns when the broker has acknowledged all of them."""
    request = Request(
        f"{address}/topics/orders?key_field=item",
        data=json.dumps(orders).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request) as response:
        print(f"{len(json.load(response)['offsets'])} orders are acknowledged")


def follow(address: str, count: int, last_id: str = "") -> str:
    """Print so many orders, and return the id of the last event, as a browser remembers it."""
    request = Request(f"{address}/topics/orders/stream?from=earliest", headers={"Last-Event-ID": last_id})
    with urlopen(request) as events:
        for line in events:
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                last_id = text
            elif name == "data":
                print(f"  {json.loads(text)['value']}")
                count -= 1
            if not count:
                break
    return last_id


def main() -> None:
    with Broker() as broker:
        with gateway(broker.bootstrap) as address:
            write(address, ORDERS[:3])
            print("the first two, and then the connection is lost")
            last_id = follow(address, 2)
            write(address, ORDERS[3:])
        with gateway(broker.bootstrap) as address:
            print("from there on, with another gateway")
            follow(address, 2, last_id)


if __name__ == "__main__":
    main()
