"""The shop of `headrace run`: a SQLite file like any other, with orders that come and go."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from headrace.cdc.capture import Captures
from headrace.cli.demo.shop import CAPTURE, Shop, capture_shop, create_shop


def orders(path: Path) -> int:
    with sqlite3.connect(path) as shop:
        return int(shop.execute("SELECT count(*) FROM orders").fetchone()[0])


def test_shop_is_created_once_and_keeps_its_orders(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    create_shop(path)
    with sqlite3.connect(path) as shop:
        shop.execute("INSERT INTO orders (product, city, quantity, amount) VALUES (1, 'Oslo', 2, 19)")
        shop.execute("UPDATE products SET stock = 7 WHERE id = 1")
    create_shop(path)
    with sqlite3.connect(path) as shop:
        assert shop.execute("SELECT stock FROM products WHERE id = 1").fetchone() == (7,)
    assert orders(path) == 1


def test_customers_order_until_the_shop_is_left(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    create_shop(path)
    with Shop(path, changes_per_s=500) as shop:
        while orders(path) < 20:
            shop.check()
            time.sleep(0.01)
    left = orders(path)
    with sqlite3.connect(path) as opened:
        assert opened.execute("SELECT count(*) FROM products WHERE stock < 100").fetchone()[0] > 0
    assert orders(path) == left


def test_capture_of_the_shop_is_added_once(tmp_path: Path) -> None:
    create_shop(tmp_path / "shop.db")
    capture_shop(tmp_path / "shop.db", tmp_path)
    capture_shop(tmp_path / "shop.db", tmp_path)
    source = Captures(tmp_path).folder(CAPTURE).definition().open_source()
    assert source.check() == ["orders", "products"]
    source.close()
