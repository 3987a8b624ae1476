"""Small streams for operators: each list of rows is one micro-batch, and the query restarts in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

SCHEMA = "user string, at timestamp, ms bigint"
EPOCH_S = 1_700_000_000 // 3600 * 3600
"""Times in tests are seconds after this; the start of an hour."""

EventRow = tuple[str | None, float | None, int | None]


def at(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(EPOCH_S + seconds, tz=UTC).isoformat()


def bounded(spark: SparkSession, rows: Sequence[EventRow]) -> DataFrame:
    created = [
        (user, None if seconds is None else datetime.fromtimestamp(EPOCH_S + seconds, tz=UTC), ms)
        for user, seconds, ms in rows
    ]
    return spark.createDataFrame(created, SCHEMA)


class Stream:
    """Micro-batches through an operator. Each `send` is a run of its own that continues from the checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        operator: Callable[[DataFrame], DataFrame],
        watermark: str | None = "0 seconds",
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._input = folder / "input"
        self._input.mkdir()
        self._operator = operator
        self._watermark = watermark
        self._count = 0
        self.progress: list[dict[str, Any]] = []

    def send(self, rows: Sequence[EventRow]) -> list[dict[str, Any]]:
        """The output of a run that ends when all input is processed, including the watermark of these rows."""
        lines = [json.dumps({"user": user, "at": at(seconds), "ms": ms}) for user, seconds, ms in rows]
        self._count += 1
        (self._input / f"{self._count:04}.json").write_text("\n".join(lines) + "\n")
        frame = self._spark.readStream.schema(SCHEMA).json(str(self._input))
        if self._watermark is not None:
            frame = frame.withWatermark("at", self._watermark)
        found: list[dict[str, Any]] = []

        def collect(batch: DataFrame, number: int) -> None:
            found.extend({"batch": number, **row.asDict()} for row in batch.collect())

        query = (
            frame.transform(self._operator)
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        self.progress += [json.loads(each.json) for each in query.recentProgress]
        return found


def since_epoch(time: datetime) -> float:
    """Seconds after EPOCH_S, of a time that Spark returned (in the zone of this process)."""
    return time.timestamp() - EPOCH_S
