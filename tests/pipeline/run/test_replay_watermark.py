"""The watermark of a replay: partitions that are hours apart lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.pipeline import Job, read_topic
from headrace.pipeline.run.replay_watermark import batch_bound, is_bounded
from headrace.pipeline.source.spec import SourceSpec
from headrace.testing import Collect
from tests.pipeline.conftest import CreateTopic

pytestmark = pytest.mark.timeout(300)

SCHEMA = "user STRING, at TIMESTAMP"


@dataclass
class Replay:
    topic: str
    name: str
    spark: SparkSession

    def run(self, window: op.Tumbling, sink: Collect) -> Counter[str]:
        rows = read_topic(
            self.spark,
            self.topic,
            schema=SCHEMA,
            event_time="at",
            watermark="1 minute",
            options={"maxOffsetsPerTrigger": "12"},
        )
        Job(self.name, rows.transform(window), sink, mode="batch").start().wait()
        counts: Counter[str] = Counter()
        for row in sink.rows:
            counts[f"{row['window_start']:%H:%M}"] += row["count"]
        return counts


@pytest.mark.parametrize(
    "trigger",
    [pytest.param(None, id="native", marks=pytest.mark.slow), pytest.param(op.Trigger(), id="core")],
)
def test_partitions_that_are_hours_apart_lose_no_rows_in_a_replay(
    spark: SparkSession,
    create_topic: CreateTopic,
    send: Callable[..., None],
    name: str,
    trigger: op.Trigger | None,
) -> None:
    topic = create_topic(partitions=2)
    for partition, hour in ((0, 10), (1, 12)):
        events = ({"user": "ann", "at": f"2026-03-01T{hour}:{minute:02}:00Z"} for minute in range(30))
        send(topic, *events, partition=partition)
    replay = Replay(topic, name, spark)
    sink = Collect()
    found = replay.run(op.Tumbling("10 minutes", by="user", trigger=trigger), sink)
    assert len(sink.batches) > 4
    assert found == {"10:00": 10, "10:10": 10, "10:20": 10, "12:00": 10, "12:10": 10}
    # Everything is read now: the watermark follows the newest record, and an older one is late.
    send(topic, {"user": "ann", "at": "2026-03-01T10:05:00Z"}, partition=0)
    send(topic, {"user": "ann", "at": "2026-03-01T12:40:00Z"}, partition=1)
    assert replay.run(op.Tumbling("10 minutes", by="user", trigger=trigger), sink)["12:20"] == 10
    assert Counter(f"{row['window_start']:%H:%M}" for row in sink.rows)["10:00"] == 1


def _spec(**options: Any) -> SourceSpec:
    return SourceSpec(
        id="a1",
        bootstrap="127.0.0.1:1",
        topics=("clicks",),
        pattern=None,
        format="json",
        schema=SCHEMA,
        required=(),
        bounded=False,
        dead_letters=None,
        options=options,
        watermark="1 minute",
    )


def test_only_a_batch_that_reached_its_bound_leaves_records_behind() -> None:
    spec = _spec(maxoffsetspertrigger="100")
    assert batch_bound(spec) == 100
    starts = {"clicks": {0: 5, 1: 5}}
    assert is_bounded(spec, starts, {"clicks": {0: 60, 1: 49}})
    assert not is_bounded(spec, starts, {"clicks": {0: 60, 1: 30}})
    assert not is_bounded(spec, {"clicks": {0: 0}}, {"clicks": {0: 500}}), "one partition is in its own order"
    assert not is_bounded(spec, {"other": {0: 0, 1: 0}}, {"other": {0: 500, 1: 500}})
