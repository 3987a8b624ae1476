"""A dashboard that is never outdated: a program follows a view, while another process builds it from a topic.

python examples/follow_view.py

The compacted topic has the state of each order, and so has the view. The follower gets the open orders first, and
then each change: an order that is shipped is retracted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace import Broker
from headrace.views import Position, open_view

WAIT_S = 300.0


def put(producer: Producer, *orders: dict[str, Any]) -> Position:
    """Write the state of orders; returns the position after the writes."""
    acknowledged: list[Message] = []
    for order in orders:
        producer.produce(
            "shop.orders",
            key=str(order["id"]),
            value=json.dumps(order),
            on_delivery=lambda _error, record: acknowledged.append(record),
        )
    producer.flush()
    return Position.after(acknowledged)


def headrace(*arguments: str, folder: Path, bootstrap: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "HEADRACE_BOOTSTRAP": bootstrap, "HEADRACE_PIPELINE_BOOTSTRAP": bootstrap}
    command = [sys.executable, "-m", "headrace", "view", *arguments, "--data-dir", str(folder)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary, Broker() as broker:
        folder = Path(temporary)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = NewTopic("shop.orders", 1, config={"cleanup.policy": "compact"})
        admin.create_topics([topic])["shop.orders"].result()
        put(producer, {"id": 1, "state": "open"}, {"id": 2, "state": "open"})
        create = ["create", "orders", "--from", "shop.orders", "--key", "id"]
        assert headrace(*create, folder=folder, bootstrap=broker.bootstrap).wait() == 0
        running = headrace("run", folder=folder, bootstrap=broker.bootstrap)
        try:
            with open_view("orders", data_dir=folder) as view:
                # At least as new as this write: the program reads what it has written.
                third = put(producer, {"id": 3, "state": "open"})
                print("order 3 is", view.get(id=3, at_least=third, wait_s=WAIT_S)["state"])
                for step in view.follow("WHERE state = 'open'"):
                    for change in step.changes:
                        print(change.op, "order", change.row["id"])
                    if step.is_snapshot:
                        put(producer, {"id": 2, "state": "shipped"}, {"id": 4, "state": "open"})
                    elif any(change.row["id"] == 4 for change in step.changes):
                        break
        finally:
            running.terminate()
            running.wait()


if __name__ == "__main__":
    main()
