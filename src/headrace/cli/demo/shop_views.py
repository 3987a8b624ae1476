"""The views of `headrace run`: a table, a cache and a full-text index that follow the shop.

They run in the process of the job, because a second Spark would double the start.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.demo.shop import CAPTURE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.kafka.cluster import Cluster
    from headrace.views.definition import Definition

TICK_S = 0.2
ORDERS, PRODUCTS = f"{CAPTURE}.orders", f"{CAPTURE}.products"
TABLE, CACHE, INDEX = "orders_by_city", "product_cache", "product_search"


def redis_socket(data_dir: Path) -> Path:
    return data_dir.absolute() / "redis" / "redis.sock"


def definitions(data_dir: Path) -> list[Definition]:
    """Of the three views; without the cache if no Redis runs."""
    from headrace.views.definition import Definition

    table = Definition(
        name=TABLE,
        topics=(ORDERS,),
        key=("city",),
        sql="SELECT city, count(*) AS orders, sum(quantity) AS pieces FROM orders GROUP BY city",
    )
    cache = Definition(
        name=CACHE,
        topics=(PRODUCTS,),
        key=("id",),
        store="redis",
        at=f"unix://{redis_socket(data_dir)}",
    )
    index = Definition(
        name=INDEX,
        topics=(PRODUCTS,),
        key=("id",),
        sql="SELECT id, name, description FROM products",
        store="search",
    )
    return [table, cache, index] if redis_socket(data_dir).exists() else [table, index]


def start_views(spark: SparkSession, cluster: Cluster, data_dir: Path) -> None:
    """Beside the program: create the views when the capture has written the tables, and run them until it ends."""
    threading.Thread(target=_run, args=(spark, cluster, data_dir), name="shop-views", daemon=True).start()


def _run(spark: SparkSession, cluster: Cluster, data_dir: Path) -> None:
    from headrace.views.catalog import Views
    from headrace.views.runner import ViewRun, run_views

    while not {ORDERS, PRODUCTS} <= set(cluster.topics()):
        time.sleep(TICK_S)
    views = Views(data_dir)
    wanted = definitions(data_dir)
    for definition in wanted:
        if definition.name not in views.names():
            views.create(definition)
    runs = [ViewRun(views.folder(each.name), spark, cluster, once=False) for each in wanted]
    # The command that runs the script drains the jobs of the views with its other jobs.
    run_views(runs, is_stopping=lambda: False, show=lambda _statuses: None, pause=lambda: time.sleep(TICK_S))
