"""Windows whose results are corrected: early, on time, and again for late rows.

python examples/windows.py

Clicks per minute are written to a table. A late click corrects the row of its minute; a
click between two sessions merges them.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

SCHEMA = "user STRING, url STRING, at TIMESTAMP"


def click(bootstrap: str, *clicks: tuple[str, str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, url, time in clicks:
        producer.produce("clicks", value=json.dumps({"user": user, "url": url, "at": f"2026-03-01T{time}Z"}))
    producer.flush()


def run_jobs(spark: SparkSession) -> None:
    """Each continues from its checkpoint, processes the new records, and ends."""
    clicks = read_topic(spark, "clicks", schema=SCHEMA, event_time="at", watermark="10 seconds")
    per_minute = clicks.transform(
        op.Tumbling(
            "1 minute",
            by="url",
            aggregate={"n": "count(*)", "last_user": "last(user)"},
            trigger=op.Trigger(early=1),
            late=op.Correct(within="1 hour"),
        )
    )
    visits = clicks.transform(
        op.Session(
            gap="30 minutes", by="user", aggregate={"pages": "count(*)"}, late=op.Correct(within="1 day")
        )
    )
    Job(
        "per-minute", per_minute, Table("per_minute", key=["url", "window_start"]), mode="batch"
    ).start().wait()
    Job("visits", visits, Table("visits", key=["user", "window_start"]), mode="batch").start().wait()


def show(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for url, start, count, user, pane in views.execute(
            "SELECT url, window_start, n, last_user, pane FROM per_minute ORDER BY window_start, url"
        ):
            print(f"  {start[11:16]} {url}: {count}, last by {user} ({pane})")
        for user, start, end, pages in views.execute(
            "SELECT user, window_start, window_end, pages FROM visits ORDER BY user, window_start"
        ):
            print(f"  {user} from {start[11:16]} to {end[11:16]}: {pages} pages")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("windows", bootstrap=broker.bootstrap, data_dir=folder)

        click(broker.bootstrap, ("ann", "/shop", "10:00:05"), ("bob", "/shop", "10:00:40"))
        click(broker.bootstrap, ("ann", "/shop", "10:45:00"), ("bob", "/help", "11:30:00"))
        run_jobs(spark)
        print("results so far:")
        show(Path(folder))

        # The second one merges two sessions; for its minute it is beyond the hour of allowed lateness.
        click(broker.bootstrap, ("ann", "/shop", "10:44:30"), ("ann", "/cart", "10:20:00"))
        run_jobs(spark)
        print("after two late clicks:")
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
