"""Queries over several topics that restart between sends, each from its checkpoint."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from tests.compatibility.topic_contents import PATIENCE_S, write

Build = Callable[[bool], DataFrame]
"""The query over bounded rows (True) or as a stream (False)."""


class TopicStreams:
    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path, topics: Sequence[str]) -> None:
        self.spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        unique = uuid.uuid4().hex[:12]
        self.topics = {name: f"{name}-{unique}" for name in topics}
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        created = admin.create_topics([NewTopic(name, 1, 1) for name in self.topics.values()])
        for each in created.values():
            each.result(PATIENCE_S)

    def send(self, **contents: Sequence[Mapping[str, Any]]) -> None:
        for name, rows in contents.items():
            write(self._bootstrap, self.topics[name], [{"value": json.dumps(row)} for row in rows])

    def drain(self, query: DataFrame, *, name: str = "query") -> list[dict[str, Any]]:
        """The output of a run that ends when all input is processed."""
        found: list[dict[str, Any]] = []

        def collect(batch: DataFrame, number: int) -> None:
            found.extend(row.asDict() for row in batch.collect())

        running = (
            query.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self._folder / name))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
        return found


def split(events: Sequence[Any], parts: int) -> list[list[Any]]:
    """In this order, into as many parts of about the same size; into fewer if there are not so many."""
    size = max(1, -(-len(events) // parts))
    return [list(events[start : start + size]) for start in range(0, len(events), size)]
