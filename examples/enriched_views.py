"""Page views with the plan of the user at that time: a stream enriched from the changes of a table.

python examples/enriched_views.py

The users are a table in a database. A topic has its changes, as change data capture writes them. One user
changes from the free plan to the paid one, and another one is deleted; every view gets the entry of its event time.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table


def view(bootstrap: str, *views: tuple[int, str, str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, time, url in views:
        row = {"user_id": user, "at": f"2026-03-01T{time}Z", "url": url}
        producer.produce("views", value=json.dumps(row))
    producer.flush()


def change(bootstrap: str, *changes: tuple[str, str, dict[str, Any]]) -> None:
    """(operation, time, row), in the envelope of change data capture."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for operation, time, row in changes:
        image = {"before": row, "after": None} if operation == "d" else {"before": None, "after": row}
        at_ms = int(datetime.fromisoformat(f"2026-03-01T{time}+00:00").timestamp() * 1000)
        producer.produce(
            "users", key=str(row["id"]), value=json.dumps({**image, "op": operation, "ts_ms": at_ms})
        )
    producer.flush()


def run_job(spark: SparkSession) -> None:
    """Continue from the checkpoint, process the new records, and end."""
    views = read_topic(
        spark,
        "views",
        schema="user_id BIGINT, at TIMESTAMP, url STRING",
        event_time="at",
        watermark="1 minute",
    )
    users = read_topic(
        spark,
        "users",
        schema="id BIGINT, name STRING, plan STRING",
        format="changes",
        event_time="_change_ts",
        watermark="1 minute",
    )
    rich = views.transform(op.Enrich(users, on={"user_id": "id"}, as_of="event_time"))
    rows = rich.select("_offset", "url", "name", "plan").withColumnRenamed("_offset", "number")
    Job("rich-views", rows, Table("rich_views", key="number"), mode="batch").start().wait()


def show(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for url, name, plan in views.execute("SELECT url, name, plan FROM rich_views ORDER BY number"):
            print(f"  {url}: {name or 'nobody'}, {plan or 'no plan'}")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("enriched-views", bootstrap=broker.bootstrap, data_dir=folder)
        ann, bob = {"id": 1, "name": "Ann", "plan": "free"}, {"id": 2, "name": "Bob", "plan": "free"}

        change(broker.bootstrap, ("c", "09:00:00", ann), ("c", "09:00:00", bob))
        view(
            broker.bootstrap, (1, "10:00:00", "/home"), (1, "10:31:00", "/reports"), (2, "10:40:00", "/home")
        )
        # Both arrive after the views that they affect.
        change(broker.bootstrap, ("u", "10:30:00", {**ann, "plan": "paid"}), ("d", "10:35:00", bob))
        # Only a much later record moves the watermark past the others.
        view(broker.bootstrap, (1, "12:00:00", "/home"))
        change(broker.bootstrap, ("u", "12:00:00", {**ann, "plan": "free"}))
        run_job(spark)
        print("each view with the user at its event time:")
        show(Path(folder))
        spark.stop()


if __name__ == "__main__":
    main()
