"""Windows by local days, by the number of rows, and by gaps that the rows define.

python examples/days_and_counts.py

Readings of sensors: by days in Berlin (the day on which summer time starts has 23 hours), by every three
readings, and by sessions whose gap is a column of the rows. The first two run as jobs that write tables;
then all three run over the same topic as bounded rows, with the same results.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame

from headrace import Broker
from headrace import operators as op
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

SCHEMA = "sensor STRING, at TIMESTAMP, celsius DOUBLE, silent_s INT"
READINGS = [
    ("attic", "2026-03-28T22:30:00Z", 3.0, 600),  # still the 28th in Berlin
    ("attic", "2026-03-29T00:30:00Z", 2.0, 600),
    ("attic", "2026-03-29T00:20:00Z", 1.0, 900),  # out of order
    ("attic", "2026-03-29T21:30:00Z", 6.0, 600),
    ("attic", "2026-03-29T22:30:00Z", 9.0, 600),  # the 30th: the day before had 23 hours
    ("cellar", "2026-03-29T12:00:00Z", 11.0, 60),
    ("cellar", "2026-03-29T12:05:00Z", 12.0, 600),
    ("cellar", "2026-03-29T12:10:00Z", 13.0, 0),  # no gap: in no session, and counted
    ("attic", "2026-04-02T00:00:00Z", 10.0, 600),
]

per_day = op.Tumbling("1 day", zone="Europe/Berlin", by="sensor", aggregate={"warmest": "max(celsius)"})
by_three = op.Counting(3, by="sensor", aggregate={"mean": "avg(celsius)"}, late=op.Correct(within="30 days"))
awake = op.Session(
    gap=op.PerRow("silent_s * INTERVAL 1 SECOND"), by="sensor", aggregate={"readings": "count(*)"}
)


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for sensor, at, celsius, silent_s in READINGS:
        reading = {"sensor": sensor, "at": at, "celsius": celsius, "silent_s": silent_s}
        producer.produce("readings", value=json.dumps(reading))
    producer.flush()


def show_tables(folder: Path) -> None:
    with sqlite3.connect(folder / "views.db") as views:
        for sensor, start, end, warmest in views.execute(
            "SELECT sensor, window_start, window_end, warmest FROM per_day ORDER BY sensor, window_start"
        ):
            print(f"  {sensor} from {start[:16]} to {end[:16]} UTC: at most {warmest} °C")
        for sensor, mean in views.execute("SELECT sensor, mean FROM by_three ORDER BY sensor, window_start"):
            print(f"  {sensor}, three readings: {mean} °C on average")


def show(rows: DataFrame) -> None:
    for row in rows.orderBy("sensor", "window_start").collect():
        result = [row[name] for name in ("warmest", "mean", "readings") if name in rows.columns]
        print(f"  {row.sensor} {row.window_start:%m-%d %H:%M} to {row.window_end:%m-%d %H:%M}: {result[0]}")


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("days-and-counts", bootstrap=broker.bootstrap, data_dir=folder)
        produce(broker.bootstrap)

        stream = read_topic(spark, "readings", schema=SCHEMA, event_time="at", watermark="1 hour")
        for name, window in (("per_day", per_day), ("by_three", by_three)):
            table = Table(name, key=["sensor", "window_start"])
            Job(name.replace("_", "-"), stream.transform(window), table, mode="batch").start().wait()
        print("results of the jobs, before the last day is closed:")
        show_tables(Path(folder))

        readings = read_topic(spark, "readings", schema=SCHEMA, event_time="at", bounded=True)
        for name, each in (("days", per_day), ("threes", by_three), ("awake", awake)):
            print(f"{name}, of bounded rows:")
            show(readings.transform(each))
        spark.stop()


if __name__ == "__main__":
    main()
