"""Trends without counting everything: the most frequent URLs of all time, and their unique visitors.

python examples/trending_urls.py
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table


def send_clicks(bootstrap: str, counts: dict[str, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for url, count in counts.items():
        for number in range(count):
            producer.produce("clicks", value=json.dumps({"user": f"u{number % 40}", "url": url}))
    producer.flush()


def run_jobs(spark: SparkSession) -> None:
    """Each continues from its checkpoint, processes the new records, and ends."""
    clicks = read_topic(spark, "clicks", schema="user STRING, url STRING")
    top = clicks.transform(op.TopN(3, of="url"))
    users = clicks.transform(op.Approximate(by="url", aggregate={"users": "distinct(user)"}))
    Job("top-urls", top, Table("top_urls", key="rank"), mode="batch").start().wait()
    Job("users", users, Table("users", key="url"), mode="batch").start().wait()


def show(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "views.db")) as views:
        query = "SELECT rank, url, count, users FROM top_urls JOIN users USING (url) ORDER BY rank"
        for rank, url, count, users in views.execute(query):
            print(f"  {rank}. {url}: {count} clicks by {users} users")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        spark = session("trends", bootstrap=broker.bootstrap, data_dir=folder)
        send_clicks(broker.bootstrap, {"/home": 50, "/cart": 20, "/help": 5, "/about": 1})
        run_jobs(spark)
        print("in the morning:")
        show(Path(folder))
        send_clicks(broker.bootstrap, {"/sale": 90, "/cart": 40})
        run_jobs(spark)
        print("at noon:")
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
