"""Traffic by the hour, compared with the same hour of the day before, from phones with wrong clocks.

python examples/traffic_report.py

Event times are corrected by the send time of the phone and the receive time of the server. Each hour has its 95th
percentile, its visitors, its most frequent pages and its rate; and a late request of yesterday changes today's
comparison. At the end the same report is computed from the topic as bounded rows: it has the same rows, and the hour
that is not closed yet.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

SCHEMA = "user STRING, url STRING, ms INT, at TIMESTAMP, sent_at TIMESTAMP, received_at TIMESTAMP"

Request = tuple[str, str, int, str, int]
"""User, page, milliseconds, event time, and the error of the phone's clock in hours."""

YESTERDAY: list[Request] = [
    ("ann", "/shop", 120, "2026-03-01T10:05", 0),
    ("bob", "/shop", 80, "2026-03-01T10:20", -24),
    ("cat", "/help", 30, "2026-03-01T10:40", 5),
]
TODAY: list[Request] = [
    ("ann", "/shop", 90, "2026-03-02T10:10", 0),
    ("ann", "/shop", 50, "2026-03-02T10:15", -490_000),  # the clock starts in 1970 after an empty battery
    ("bob", "/help", 700, "2026-03-02T10:30", 0),
    ("dan", "/", 20, "2026-03-02T12:00", 0),
]
LATE: list[Request] = [("eve", "/shop", 40, "2026-03-01T10:59", 0)]


def send(bootstrap: str, requests: list[Request]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for user, url, ms, time, hours in requests:
        happened = datetime.fromisoformat(time)
        received = happened + timedelta(seconds=30)
        times = {
            "at": happened + timedelta(hours=hours),
            "sent_at": received + timedelta(hours=hours),
            "received_at": received,
        }
        stamped = {name: each.isoformat() + "Z" for name, each in times.items()}
        producer.produce("requests", value=json.dumps({"user": user, "url": url, "ms": ms, **stamped}))
    producer.flush()


def report(requests: DataFrame) -> DataFrame:
    """The same for a stream and for bounded rows."""
    correct = op.CorrectClock(event="at", sent="sent_at", received="received_at", into="happened_at")
    hourly = op.Tumbling(
        "1 hour",
        aggregate={
            "p95_ms": "percentile(ms, 0.95)",
            "users": "distinct(user)",
            "pages": "top(url, 2)",
            "per_hour": "rate(3600)",
        },
        late=op.Correct(within="2 days"),
    )
    compare = op.CompareWith("1 day", on=(), columns=["users", "p95_ms"], within="2 days")
    corrected = requests.transform(correct).withWatermark("happened_at", "10 minutes")
    return corrected.transform(hourly).transform(compare)


def show(title: str, rows: list[tuple[Any, ...]]) -> None:
    print(title)
    for start, p95_ms, users, pages, per_hour, users_before, change_ms in rows:
        listed = ", ".join(f"{page['value']} {page['count']}" for page in json.loads(str(pages)))
        before = "" if users_before is None else f", {users_before} the day before ({change_ms:+.0f} ms)"
        hour = f"{str(start)[:10]} {str(start)[11:13]}h"
        print(f"  {hour}: {p95_ms:.0f} ms, {per_hour:.0f} requests ({listed}), {users} users{before}")


COLUMNS = ("window_start", "p95_ms", "users", "pages", "per_hour", "users_before", "p95_ms_change")


def in_table(folder: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "views.db") as views:
        found = views.execute(f"SELECT {', '.join(COLUMNS)} FROM report ORDER BY window_start")
        return [tuple(row) for row in found]


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("traffic-report", bootstrap=broker.bootstrap, data_dir=folder)

        def run() -> None:
            """Continue from the checkpoint, process the new records, and end."""
            requests = read_topic(spark, "requests", schema=SCHEMA)
            table = Table("report", key="window_start")
            Job("traffic-report", report(requests), table, mode="batch").start().wait()

        send(broker.bootstrap, YESTERDAY)
        send(broker.bootstrap, TODAY)
        run()
        show("results so far:", in_table(Path(folder)))

        send(broker.bootstrap, LATE)
        run()
        show("after a late request of yesterday:", in_table(Path(folder)))

        at_once = report(read_topic(spark, "requests", schema=SCHEMA, bounded=True))
        start = "date_format(window_start, 'yyyy-MM-dd HH') AS window_start"
        rows = at_once.selectExpr(start, *COLUMNS[1:3], "to_json(pages) AS pages", *COLUMNS[4:])
        show("as bounded rows:", sorted(tuple(row) for row in rows.collect()))
        spark.stop()


if __name__ == "__main__":
    main()
