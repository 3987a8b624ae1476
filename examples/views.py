"""A table of orders becomes a view by city; its definition changes, and readers see no gap.

python examples/views.py
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from headrace import Broker

COUNT = "SELECT city, count(*) AS orders FROM orders GROUP BY city"
TOTAL = "SELECT city, count(*) AS orders, sum(price) AS total FROM orders GROUP BY city"


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:

        def headrace(*arguments: str) -> None:
            environment = {**os.environ, "HEADRACE_BOOTSTRAP": broker.bootstrap}
            command = [sys.executable, "-m", "headrace", *arguments, "--data-dir", folder]
            subprocess.run(command, env=environment, check=True)

        def show() -> None:
            with closing(sqlite3.connect(Path(folder) / "views.db")) as views:
                for row in views.execute("SELECT * FROM orders_by_city ORDER BY city"):
                    print(f"  {row}", flush=True)

        with closing(sqlite3.connect(Path(folder) / "shop.db", isolation_level=None)) as shop:
            shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, city TEXT, price INTEGER)")
            shop.execute("INSERT INTO orders VALUES (1, 'Oslo', 20), (2, 'Rome', 5), (3, 'Oslo', 7)")
            headrace("cdc", "add", "shop", "--from", f"sqlite:///{folder}/shop.db")
            headrace("cdc", "run", "--once")
            headrace(
                "view", "create", "orders_by_city", "--from", "shop.orders", "--key", "city", "--sql", COUNT
            )
            headrace("view", "run", "--once")
            show()

            # A changed definition is a rebuild: the new version is built beside the one that is served.
            shop.execute("UPDATE orders SET city = 'Rome' WHERE id = 3")
            headrace("cdc", "run", "--once")
            headrace("view", "rebuild", "orders_by_city", "--sql", TOTAL)
            show()


if __name__ == "__main__":
    main()
