"""A streaming source that a test feeds, one micro-batch at a time."""

from __future__ import annotations

import base64
import json
import os
import tempfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Feed:
    """Rows for a stream: each `send` becomes one micro-batch.

        clicks = Feed(spark, "user STRING, at TIMESTAMP")
        counts = clicks.rows.withWatermark("at", "10 seconds").transform(op.Tumbling("1 minute", by="user"))
        clicks.send({"user": "ann", "at": datetime(2026, 3, 1, 10, tzinfo=UTC)})
        clicks.send({"user": "bob", "at": "2026-03-01T10:05:00Z"})
        Job("counts", counts, collected, mode="batch").start().wait()

    Columns that a row lacks are null. Batches that were sent before the query starts are read one by one, in order.

    folder   where the rows are stored; a job that restarts from its checkpoint needs the same folder
    """

    def __init__(self, spark: SparkSession, schema: str, folder: str | Path | None = None) -> None:
        self._spark = spark
        self._schema = schema
        self._folder = Path(folder or tempfile.mkdtemp(prefix="headrace-feed-"))
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def rows(self) -> DataFrame:
        return (
            self._spark.readStream.schema(self._schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(self._folder))
        )

    def send(self, *rows: Mapping[str, Any]) -> None:
        number = len(list(self._folder.glob("*.json"))) + 1
        hidden = self._folder / f".{number:06}"
        hidden.write_text("".join(json.dumps(row, default=_plain) + "\n" for row in rows))
        # Spark reads files in the order of their modification times, which are otherwise equal within a millisecond.
        os.utime(hidden, (number, number))
        hidden.rename(self._folder / f"{number:06}.json")


def _plain(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)
