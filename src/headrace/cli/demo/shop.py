"""The small shop of `headrace run`: a SQLite file that a thread writes, as any program would."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from headrace.cli.demo.stream import Worker

CAPTURE = "shop"
CHANGES_PER_S = 5.0
ORDERS_MAX = 2_000
"""The oldest orders are deleted: a demonstration that runs for a week must not fill the disk."""

BUSY_TIMEOUT_S = 10.0
"""The capture writes to the same file for a moment, when it deletes the changes that the log has."""

_CITIES = ("Oslo", "Bergen", "Lyon", "Porto", "Turin", "Graz")
_PRODUCTS = (
    ("green tea", "Loose leaves from one garden, first harvest", 9.5),
    ("black tea", "Strong, with a note of malt", 7.9),
    ("coffee", "Whole beans, roasted for filter", 12.0),
    ("espresso", "Dark roasted beans for small machines", 13.5),
    ("tea pot", "Cast iron, keeps a litre of tea warm", 49.0),
    ("coffee mill", "Steel burrs, by hand", 65.0),
    ("honey", "From lime trees, in a glass of half a litre", 8.4),
    ("oat biscuits", "With honey and salt, good with tea", 4.2),
)


def create_shop(path: Path) -> None:
    """The tables and the products, unless an earlier run has created them."""
    with _connect(path) as shop:
        shop.execute("PRAGMA journal_mode = WAL")
        shop.executescript(
            """
            CREATE TABLE IF NOT EXISTS products
                (id INTEGER PRIMARY KEY, name TEXT, description TEXT, price REAL, stock INTEGER);
            CREATE TABLE IF NOT EXISTS orders
                (id INTEGER PRIMARY KEY AUTOINCREMENT, product INTEGER, city TEXT, quantity INTEGER, amount REAL);
            """
        )
        shop.executemany(
            "INSERT OR IGNORE INTO products VALUES (?, ?, ?, ?, 100)",
            [(number, *product) for number, product in enumerate(_PRODUCTS, start=1)],
        )
    shop.close()


def capture_shop(path: Path, data_dir: Path) -> None:
    """The capture of the shop, unless an earlier run has added it."""
    from headrace.cdc.capture import Capture, Captures

    captures = Captures(data_dir)
    if CAPTURE not in captures.names():
        captures.add(Capture(name=CAPTURE, address=f"sqlite:///{path.absolute()}", partitions=1))


class Shop(Worker):
    """Customers order, an order may be cancelled, and stock is refilled; each in a transaction."""

    def __init__(self, path: Path, *, changes_per_s: float = CHANGES_PER_S) -> None:
        super().__init__()
        self._path = path
        self._pause_s = 1 / changes_per_s

    def _work(self) -> None:
        shop = _connect(self._path)
        try:
            while not self._stopping.wait(self._pause_s):
                with shop:
                    _change(shop)
        finally:
            shop.close()


def _change(shop: sqlite3.Connection) -> None:
    product, quantity = random.randint(1, len(_PRODUCTS)), random.randint(1, 3)
    stock = shop.execute("SELECT stock FROM products WHERE id = ?", (product,)).fetchone()[0]
    if stock < quantity:
        shop.execute("UPDATE products SET stock = 100 WHERE id = ?", (product,))
    elif random.random() < 0.1:
        shop.execute("DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)")
    else:
        shop.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (quantity, product))
        shop.execute(
            "INSERT INTO orders (product, city, quantity, amount) "
            "SELECT id, ?, ?, price * ? FROM products WHERE id = ?",
            (random.choice(_CITIES), quantity, quantity, product),
        )
    shop.execute("DELETE FROM orders WHERE id <= (SELECT max(id) FROM orders) - ?", (ORDERS_MAX,))


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
