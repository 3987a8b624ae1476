"""Late clicks are kept in a topic, and later added to their minutes.

python examples/late_rows.py

One job counts the clicks of two sources by the minute, and does not wait for an idle source. Late clicks
go to the topic `clicks.late`. A second job adds them to the counts.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

SCHEMA = "user STRING, url STRING, at TIMESTAMP"


def click(bootstrap: str, topic: str, *clicks: tuple[str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, time in clicks:
        value = {"user": user, "url": "/shop", "at": f"2026-03-01T{time}Z"}
        producer.produce(topic, key=user, value=json.dumps(value))
    producer.flush()


def clicks_of(spark: SparkSession, topic: str) -> DataFrame:
    return read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="10 seconds", idle="5 minutes")


def count(spark: SparkSession) -> None:
    both = op.Merge(policy="min")({"web": clicks_of(spark, "web"), "app": clicks_of(spark, "app")})
    per_minute = both.transform(
        op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"}, late=op.SideOutput("clicks.late"))
    )
    table = Table("per_minute", key=["url", "window_start"])
    running = Job("per-minute", per_minute.drop("watermark"), table, mode="batch").start()
    running.wait()
    status = running.status()
    print(f"  {status.late_rows} late, {status.late_rows_kept} of them kept")


def add_late_ones(spark: SparkSession) -> None:
    late = read_topic(spark, "clicks.late", schema=SCHEMA)
    minute = late.selectExpr("url", "date_trunc('minute', at) AS window_start")
    counted = minute.groupBy("url", "window_start").count()
    Job("late-ones", counted, Table("late_ones", key=["url", "window_start"]), mode="batch").start().wait()


def show(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for url, start, in_time, late in views.execute(
            "SELECT url, window_start, n, coalesce(late_ones.count, 0)"
            " FROM per_minute LEFT JOIN late_ones USING (url, window_start) ORDER BY window_start"
        ):
            print(f"  {start[11:16]} {url}: {in_time} in time, {late} late")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("late-rows", bootstrap=broker.bootstrap, data_dir=folder)

        click(broker.bootstrap, "web", ("ann", "10:00:05"), ("bob", "10:00:40"), ("bob", "10:05:00"))
        click(broker.bootstrap, "app", ("cat", "10:00:59"), ("cat", "10:04:00"))
        print("the first minutes:")
        count(spark)

        click(broker.bootstrap, "web", ("ann", "10:05:30"))
        print("the next ones:")
        count(spark)

        # A phone comes back online.
        click(broker.bootstrap, "app", ("dora", "10:00:30"), ("dora", "10:04:30"))
        print("and a late click:")
        count(spark)
        add_late_ones(spark)
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
