"""The source of heartbeats beside a topic that may be idle.

A heartbeat is a row without content, below the watermark of its source, whose event time advances that watermark;
above the watermark, heartbeats are filtered out. Spark's offset log contains them, so that a batch that is run again
has the same ones. The job decides when to emit one (`idle_watch`).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from headrace.pipeline.source.offsets import HEARTBEAT_OFFSET

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMAT = "headrace-idle"
IS_HEARTBEAT = "__headrace_is_beat"

_BEGINNING = "0001-01-01"


class Heartbeats(DataSource):
    """Emits the newest heartbeat that the job has requested for one `read_topic`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return "beat_us BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return HeartbeatsReader(Path(self.options["signal"]))


class HeartbeatsReader(DataSourceStreamReader):
    def __init__(self, signal: Path) -> None:
        self._signal = signal

    def initialOffset(self) -> dict[str, int]:
        return {HEARTBEAT_OFFSET: 0}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        requested_us = 0
        with contextlib.suppress(FileNotFoundError):
            requested_us = int(self._signal.read_text())
        return {HEARTBEAT_OFFSET: max(requested_us, start[HEARTBEAT_OFFSET])}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        is_new = end[HEARTBEAT_OFFSET] > start[HEARTBEAT_OFFSET]
        return [InputPartition(end[HEARTBEAT_OFFSET])] if is_new else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        yield (partition.value,)


def signal_file(source_id: str) -> Path:
    """The file in which a job requests a heartbeat, on the driver's machine, where Spark plans batches."""
    return Path(tempfile.gettempdir()) / f"headrace-idle-{source_id}"


def with_watermark_when_idle(
    rows: DataFrame, event_time: str, watermark: str, *, source_id: str
) -> DataFrame:
    """The rows with a watermark that heartbeats can advance."""
    spark = rows.sparkSession
    spark.dataSource.register(Heartbeats)
    heartbeats = spark.readStream.format(FORMAT).option("signal", str(signal_file(source_id))).load()
    columns = [
        F.timestamp_micros("beat_us").alias(field.name)
        if field.name == event_time
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in rows.schema.fields
    ]
    both = rows.withColumn(IS_HEARTBEAT, F.lit(False)).union(
        heartbeats.select(*columns, F.lit(True).alias(IS_HEARTBEAT))
    )
    at = F.col(f"`{event_time}`")
    # The optimizer would move a filter that does not mention the event time below the watermark, and no heartbeat would
    # reach it.
    is_row = ~F.col(IS_HEARTBEAT) | (at < F.lit(_BEGINNING).cast("timestamp"))
    return both.withWatermark(event_time, watermark).where(is_row).drop(IS_HEARTBEAT)
