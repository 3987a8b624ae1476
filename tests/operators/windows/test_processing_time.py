"""Windows in processing time: a row belongs to the window of its micro-batch, also after a retry."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from tests.operators.streams import SCHEMA, Stream, bounded

EARLY = op.Tumbling(
    "1 second", by="user", aggregate={"n": "count(*)"}, time=op.PROCESSING_TIME, trigger=op.Trigger(early=1)
)


def test_a_window_closes_when_later_rows_arrive(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling("1 second", by="user", aggregate={"n": "count(*)"}, time=op.PROCESSING_TIME)
    stream = Stream(spark, tmp_path, window, watermark=None)
    began = time.time()
    assert stream.send([("ann", 0, 1), ("ann", 100, 1), ("ann", -9999, 1), ("bob", 0, 1)]) == []
    time.sleep(1.1)
    emitted = stream.send([("bob", 0, 1)])
    assert sorted((row["user"], row["n"]) for row in emitted) == [("ann", 3), ("bob", 1)]
    assert all(began - 1 <= row["window_start"].timestamp() <= time.time() for row in emitted)


def test_a_retried_batch_keeps_its_time(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "1.json").write_text('{"user": "ann", "ms": 1}\n')
    found: list[tuple[int, Any]] = []

    def run(fails: bool) -> None:
        def collect(batch: DataFrame, number: int) -> None:
            found.extend((number, row.window_start) for row in batch.collect())
            if fails:
                raise OSError("the sink is unavailable")

        query = (
            spark.readStream.schema(SCHEMA)
            .json(str(tmp_path / "input"))
            .transform(EARLY)
            .writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(StreamingQueryException):
        run(fails=True)
    time.sleep(1.1)
    run(fails=False)
    assert len(found) == 2
    assert found[0] == found[1]


def test_bounded_rows_have_no_processing_time(spark: SparkSession) -> None:
    with pytest.raises(op.BadOperator, match="bounded rows") as rejected:
        EARLY(bounded(spark, [("ann", 0, 1)]))
    assert rejected.value.field == "time"


def test_a_stream_with_a_watermark_is_rejected(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    with pytest.raises(op.BadOperator, match="'timestamp' has a watermark") as rejected:
        op.Sliding("1 minute", time=op.PROCESSING_TIME)(stream)
    assert rejected.value.hint
