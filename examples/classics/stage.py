"""What the scripts share: a broker, a Spark session, records in topics, and jobs whose result is a table."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from headrace import Broker
from headrace.pipeline import Job, read_topic, session
from headrace.pipeline.sinks import Table

DAY = "2026-03-02T"


@dataclass(frozen=True)
class Stage:
    spark: SparkSession
    bootstrap: str
    folder: Path

    def send(self, topic: str, rows: Iterable[dict[str, Any] | str]) -> None:
        """Rows as JSON, texts as they are. A field `at` may be a time of the day."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for row in rows:
            producer.produce(topic, value=row if isinstance(row, str) else json.dumps(_timed(row)))
        producer.flush()

    def read(self, topic: str, schema: str, *, bounded: bool = False) -> DataFrame:
        """With `at` as the event time."""
        watermark = None if bounded else "1 minute"
        return read_topic(
            self.spark, topic, schema=schema, event_time="at", watermark=watermark, bounded=bounded
        )

    def run(self, name: str, rows: DataFrame, key: str | list[str]) -> list[sqlite3.Row]:
        """Process the new records, and end. The rows of the table of this name, in the order of the key."""
        Job(name.replace("_", "-"), rows, Table(name, key=key), mode="batch").start().wait()
        return self.table(name, key)

    def table(self, name: str, key: str | list[str]) -> list[sqlite3.Row]:
        with contextlib.closing(sqlite3.connect(self.folder / "views.db")) as views:
            views.row_factory = sqlite3.Row
            order = key if isinstance(key, str) else ", ".join(key)
            return views.execute(f"SELECT * FROM {name} ORDER BY {order}").fetchall()


@contextlib.contextmanager
def stage(name: str) -> Iterator[Stage]:
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        spark = session(name, bootstrap=broker.bootstrap, data_dir=folder)
        yield Stage(spark, broker.bootstrap, Path(folder))
        spark.stop()


def _timed(row: dict[str, Any]) -> dict[str, Any]:
    at = row.get("at")
    return row if at is None or "T" in at else {**row, "at": f"{DAY}{at}Z"}


def hour(time: str) -> str:
    """`10:00` of `2026-03-02 10:00:00`"""
    return time[11:16]
