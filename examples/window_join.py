"""The load and the temperature of machines, minute by minute: two streams joined by key and window.

python examples/window_join.py

Each machine has two sensors. Every reading of the load is joined with the readings of the temperature in the same
minute. If there is none when the watermark has passed the minute, the sensor is silent.
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


def measure(bootstrap: str, topic: str, *readings: tuple[str, str, int]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for machine, time, value in readings:
        row = {"machine": machine, "at": f"2026-03-01T{time}Z", "value": value}
        producer.produce(topic, key=machine, value=json.dumps(row))
    producer.flush()


def readings(spark: SparkSession, topic: str, name: str) -> DataFrame:
    rows = read_topic(
        spark,
        topic,
        schema="machine STRING, at TIMESTAMP, value INT",
        event_time="at",
        watermark="10 seconds",
    )
    return rows.select("machine", "at", rows["value"].alias(name))


def main() -> None:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session("window-join", bootstrap=broker.bootstrap, data_dir=folder)
        measure(
            broker.bootstrap,
            "loads",
            ("press", "10:00:05", 70),
            ("press", "10:01:10", 95),
            ("saw", "10:00:30", 20),
            ("press", "10:05:00", 60),
        )
        measure(
            broker.bootstrap,
            "temperatures",
            ("press", "10:00:50", 41),
            ("press", "10:01:02", 47),
            ("press", "10:01:55", 58),
            ("saw", "10:01:00", 25),
            ("press", "10:05:00", 40),
        )
        loads = readings(spark, "loads", "percent")
        temperatures = readings(spark, "temperatures", "celsius")
        joined = loads.transform(
            op.JoinWindow(temperatures, on="machine", length="1 minute", unmatched="left")
        )
        warmest = joined.selectExpr(
            "machine", "date_format(window_start, 'HH:mm') AS minute", "percent", "celsius"
        )
        table = Table("minutes", key=["machine", "minute", "celsius"])
        Job("minutes", warmest.fillna(-1, ["celsius"]), table, mode="batch").start().wait()
        with sqlite3.connect(Path(folder) / "views.db") as views:
            query = "SELECT minute, machine, percent, celsius FROM minutes ORDER BY minute, machine, celsius"
            for minute, machine, percent, celsius in views.execute(query):
                heat = f"{celsius} °C" if celsius >= 0 else "the thermometer is silent"
                print(f"{minute} {machine}: {percent} % load, {heat}")
        spark.stop()


if __name__ == "__main__":
    main()
