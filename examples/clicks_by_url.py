"""Counts in a table for any SQL tool: a job keeps clicks by url up to date in SQLite.

python examples/clicks_by_url.py
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from confluent_kafka import Producer

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

PATIENCE_S = 90


def send_clicks(bootstrap: str, counts: dict[str, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for url, count in counts.items():
        for number in range(count):
            click = {"user": f"u{number}", "url": url, "spent": 0.5}
            producer.produce("clicks", value=json.dumps(click))
    producer.flush()


def show(views: Path, query: str) -> None:
    with closing(sqlite3.connect(views)) as connection:
        for row in connection.execute(query):
            print("  " + " ".join(str(each) for each in row))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Broker() as broker:
        spark = session("shop", bootstrap=broker.bootstrap, data_dir=folder)
        send_clicks(broker.bootstrap, {"/home": 5, "/cart": 3})
        clicks = read_topic(spark, "clicks", schema="user STRING, url STRING, spent DOUBLE")
        # Spark keeps the counts as state, and writes those that have changed.
        by_url = clicks.groupBy("url").count()
        # The table keeps the sums, and each batch is added to them once.
        by_user = clicks.selectExpr("user", "1 AS clicks", "spent")

        def catch_up() -> None:
            """Process the new records, and end. Without mode="batch" the jobs run until they are stopped."""
            table = Table("clicks_by_url", key="url")
            totals = Table("clicks_by_user", key="user", merge={"clicks": "sum", "spent": "sum"})
            jobs = [
                Job("clicks-by-url", by_url, table, mode="batch").start(),
                Job("clicks-by-user", by_user, totals, mode="batch").start(),
            ]
            for job in jobs:
                assert job.wait(PATIENCE_S), f"{job.name} still runs"

        catch_up()
        send_clicks(broker.bootstrap, {"/help": 1, "/cart": 4})
        catch_up()
        views = Path(folder) / "views.db"
        print("clicks by url:")
        show(views, "SELECT url, count FROM clicks_by_url ORDER BY count DESC, url")
        print("of users 0 and 4:")
        show(views, "SELECT user, clicks, spent FROM clicks_by_user WHERE user IN ('u0', 'u4') ORDER BY user")
        spark.stop()


if __name__ == "__main__":
    main()
