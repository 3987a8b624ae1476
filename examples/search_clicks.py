"""How many searches led to a click: two streams joined within an hour.

python examples/search_clicks.py

Searches and clicks are in two topics, in any order. A search without a click is emitted too, once, when its hour has
passed. The result is the share of searches with a click, for each query.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table


def send(bootstrap: str, topic: str, *rows: tuple[str, str, str]) -> None:
    """(session, time, what)"""
    producer = Producer({"bootstrap.servers": bootstrap})
    for visit, time, what in rows:
        row = {"session": visit, "at": f"2026-03-01T{time}Z", "query" if topic == "searches" else "url": what}
        producer.produce(topic, value=json.dumps(row))
    producer.flush()


def run_job(spark: SparkSession) -> None:
    """Continue from the checkpoint, process the new records, and end."""
    searches = read_topic(
        spark,
        "searches",
        schema="session STRING, at TIMESTAMP, query STRING",
        event_time="at",
        watermark="1 minute",
    )
    clicks = read_topic(
        spark,
        "clicks",
        schema="session STRING, at TIMESTAMP, url STRING",
        event_time="at",
        watermark="1 minute",
    )
    followed = searches.transform(op.JoinWithin(clicks, on="session", after="1 hour", unmatched="left"))
    rows = followed.select(
        "session", "query", "at", "url", F.concat_ws("@", "session", "at", "at_right").alias("id")
    )
    Job("followed", rows, Table("followed", key="id"), mode="batch").start().wait()


def show(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for query, searches, clicked in views.execute(
            "SELECT query, count(DISTINCT at), count(DISTINCT CASE WHEN url IS NOT NULL THEN at END)"
            " FROM followed GROUP BY query ORDER BY query"
        ):
            print(f"  {query}: {clicked} of {searches}")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("search-clicks", bootstrap=broker.bootstrap, data_dir=folder)

        # The click of s1 arrives before the search.
        send(broker.bootstrap, "clicks", ("s1", "10:00:30", "/tomatoes"), ("s1", "10:05:00", "/basil"))
        send(broker.bootstrap, "searches", ("s1", "10:00:00", "tomato"), ("s2", "10:10:00", "tomato"))
        run_job(spark)
        print("searches with a click so far:")
        show(Path(folder))

        send(broker.bootstrap, "clicks", ("s3", "12:30:00", "/pears"))
        send(broker.bootstrap, "searches", ("s3", "12:00:00", "pear"), ("s4", "12:40:00", "fig"))
        run_job(spark)
        print("two hours later, the search without a click is emitted too:")
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
