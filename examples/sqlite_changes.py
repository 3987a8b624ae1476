"""Follow a SQLite file: each change that any program makes becomes a record.

python examples/sqlite_changes.py
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer

from headrace import Broker

COUNT = 7


def headrace(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "headrace", "cdc", *arguments], check=True)


def records(bootstrap: str, topic: str, count: int) -> Iterator[tuple[Any, Any]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "show",
            "auto.offset.reset": "earliest",
            # Records of a transaction that a crash left open are never seen.
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    for message in consumer.consume(count, timeout=30):
        yield json.loads(message.key()), json.loads(message.value() or "null")
    consumer.close()


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.db"
        options = ("--data-dir", folder)
        shop = sqlite3.connect(file, isolation_level=None)
        shop.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")
        shop.execute("INSERT INTO stock VALUES ('tea', 5), ('milk', 2)")
        headrace("add", "shop", "--from", f"sqlite:///{file}", *options)
        run = ("run", "--once", "--bootstrap", broker.bootstrap, *options)
        headrace(*run)

        shop.execute("UPDATE stock SET count = count - 1 WHERE item = 'tea'")
        shop.execute("REPLACE INTO stock VALUES ('milk', 9)")
        shop.execute("UPDATE stock SET item = 'oat milk' WHERE item = 'milk'")
        headrace(*run)

        for key, change in records(broker.bootstrap, "shop.stock", COUNT):
            if change is None:
                print(f"{key['item']}: a tombstone, so that compaction removes the key")
            else:
                print(f"{key['item']}: {change['op']} {change['before']} -> {change['after']}")
        shop.close()


if __name__ == "__main__":
    main()
