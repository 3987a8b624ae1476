"""An order and its event are one write: the outbox of a SQLite file becomes topics.

python examples/outbox.py
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Consumer

from headrace import Broker
from headrace.cdc import outbox

COUNT = 2


def headrace(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "headrace", "cdc", *arguments], check=True)


def pay(shop: sqlite3.Connection, order: int) -> None:
    with shop:  # one transaction: the order is paid and the event exists, or neither
        outbox.add(shop, aggregatetype="order", aggregateid=str(order), type="paid", payload={"order": order})
        changed = shop.execute("UPDATE orders SET state = 'paid' WHERE id = ?", (order,))
        if changed.rowcount == 0:
            raise ValueError(f"there is no order {order}")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.db"
        options = ("--data-dir", folder)
        shop = sqlite3.connect(file)
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT)")
        shop.execute(outbox.create_statement("sqlite"))
        with shop:
            shop.execute("INSERT INTO orders VALUES (1, 'new'), (2, 'new')")

        headrace("add", "shop", "--from", f"sqlite:///{file}", "--outbox", "outbox", "-p", "1", *options)
        run = ("run", "--once", "--bootstrap", broker.bootstrap, *options)
        headrace(*run)  # from now on, events are published in the order of their commits
        for order in (1, 2, 3):
            try:
                pay(shop, order)
            except ValueError as error:
                print(f"rolled back: {error}")
        headrace(*run)

        consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "mail",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["outbox.event.order"])
        for message in consumer.consume(COUNT, timeout=30):
            headers = dict(message.headers() or [])
            print(
                f"order {message.key().decode()}: {headers['eventType'].decode()} {message.value().decode()}"
            )
        consumer.close()
        (left,) = shop.execute("SELECT count(*) FROM outbox").fetchone()
        print(f"{left} rows are left in the outbox")
        shop.close()


if __name__ == "__main__":
    main()
