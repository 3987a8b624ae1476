"""Plain Spark: Headrace's sinks as formats of Spark's own writers, in any session.

python examples/plain_spark.py

A stream of files goes into a table, a search index and a Delta table. The query is started three times over the same
checkpoint, the second time as after a crash between the write and Spark's own commit: no row is written twice.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import register_formats
from headrace.pipeline.sinks import Delta, Search

ORDERS = [
    {"id": 1, "city": "Rome", "text": "two boxes of red tomatoes"},
    {"id": 2, "city": "Oslo", "text": "one box of green apples"},
    {"id": 3, "city": "Rome", "text": "green tomatoes, if there are any"},
]


def write(orders: DataFrame, format: str, folder: Path, **options: str) -> None:
    """An ordinary query of Spark, which processes the available rows and ends."""
    query = (
        orders.writeStream.format(format)
        .options(**options)
        .option("checkpointLocation", str(folder / f"checkpoint-{format}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def write_all(orders: DataFrame, folder: Path) -> None:
    write(orders, "headrace-table", folder, name="orders", key="id", at=str(folder / "views.db"))
    write(orders, "headrace-search", folder, name="orders", key="id", at=str(folder / "search"))
    write(orders, "headrace-delta", folder, name="orders", partition_by="city", at=str(folder / "delta"))


def forget_last_commit(folder: Path) -> None:
    """The effect of a crash after the write: the rows are written, and Spark has no commit."""
    for commits in folder.glob("checkpoint-*/commits"):
        newest = max(
            (each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name)
        )
        newest.unlink()
        (commits / f".{newest.name}.crc").unlink(missing_ok=True)


def show(spark: SparkSession, folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as database:
        (count,) = database.execute("SELECT count(*) FROM orders").fetchone()
    print(f"  table: {count} orders")
    hits = Search("orders", key="id", at=folder / "search").reader().search("green tomatoes", limit=1)
    print(f"  search: the best hit for 'green tomatoes' is order {hits[0].row['id']}")
    delta = Delta("orders", partition_by="city", at=folder / "delta")
    print(f"  delta: {delta.table().count()} orders in {len(delta.table().partitions())} partitions")
    back = spark.read.format("headrace-delta").option("name", "orders").load(str(folder / "delta"))
    of_rome = back.where("city = 'Rome'").count()
    print(f"  and Spark reads back {of_rome} of Rome")


def main() -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    register_formats(spark)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "orders").mkdir()
        (folder / "orders" / "1.json").write_text("\n".join(json.dumps(order) for order in ORDERS))
        orders = spark.readStream.schema("id LONG, city STRING, text STRING").json(str(folder / "orders"))
        print("written:")
        write_all(orders, folder)
        show(spark, folder)
        forget_last_commit(folder)
        print("a replay of the same batch, as after a crash:")
        write_all(orders, folder)
        show(spark, folder)
        (folder / "orders" / "2.json").write_text(json.dumps({"id": 4, "city": "Lima", "text": "limes"}))
        print("another order:")
        write_all(orders, folder)
        show(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main()
