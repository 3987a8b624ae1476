"""A topic kept as a Delta table, partitioned by day, read by DuckDB and by Spark.

python examples/delta_table.py
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import duckdb
from confluent_kafka import Producer

from headrace import Broker
from headrace.pipeline import Job, read_topic, register_formats, session
from headrace.pipeline.sinks import Delta

CITIES = ("Rome", "Oslo", "Lima")
ORDERS = 300


def send(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(ORDERS):
        order = {
            "id": number,
            "city": CITIES[number % 3],
            "price": number / 10,
            "at": f"2026-11-{15 + number % 2}T08:00:00Z",
        }
        producer.produce("orders", key=str(number), value=json.dumps(order))
    producer.flush()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        send(broker.bootstrap)
        spark = session("delta", bootstrap=broker.bootstrap, data_dir=folder)
        orders = read_topic(spark, "orders", schema="id LONG, city STRING, price DOUBLE, at TIMESTAMP")
        by_day = orders.selectExpr("*", "to_date(at) AS day")
        delta = Delta("orders", partition_by="day", at=Path(folder, "orders"))
        job = Job("orders-to-delta", by_day, delta, mode="batch").start()
        assert job.wait(90), "the job still runs"

        table = delta.table()
        print(f"{table.count()} orders, partitions {sorted(each['day'] for each in table.partitions())}")
        with duckdb.connect() as database:
            database.register("orders", table.to_pyarrow_dataset())
            for city, count, price in database.execute(
                "SELECT city, count(*), round(sum(price), 1) FROM orders GROUP BY city ORDER BY city"
            ).fetchall():
                print(f"  DuckDB: {city} {count} orders for {price}")
        register_formats(spark)
        again = spark.read.format("headrace-delta").load(str(Path(folder, "orders")))
        print(f"  Spark:  {again.where('price >= 20').count()} orders of 20 and more")
        spark.stop()


if __name__ == "__main__":
    main()
