"""Event times by the server's clock: corrected, kept, or not believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.plan_names import EVENT_TIME
from tests.operators.streams import Stream, bounded

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OLD = datetime(1970, 1, 1, 0, 5, tzinfo=UTC)
FAR = datetime(2100, 6, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

CORRECT = op.CorrectClock(event="at", sent="sent", received="received", into="happened")

Case = tuple[datetime | None, datetime | None, datetime | None, datetime | None, str]

CASES: list[Case] = [
    # An hour behind, an hour ahead: the event happened a minute before it was received.
    (NOON - 61 * MINUTE, NOON - 60 * MINUTE, NOON, NOON - MINUTE, "corrected"),
    (NOON + 59 * MINUTE, NOON + 60 * MINUTE, NOON, NOON - MINUTE, "corrected"),
    # A clock that restarted at 1970 or is far ahead still shows how long the event waited.
    (OLD, OLD + MINUTE, NOON, NOON - MINUTE, "corrected"),
    (FAR, FAR + MINUTE, NOON, NOON - MINUTE, "corrected"),
    # The clock was set between the event and the sending, or back.
    (OLD, NOON, NOON + MINUTE, NOON + MINUTE, "not believed"),
    (FAR, NOON, NOON, NOON, "not believed"),
    (NOON - timedelta(days=31), NOON, NOON, NOON, "not believed"),
    # No error that can be detected.
    (NOON - MINUTE, NOON, NOON, NOON - MINUTE, "kept"),
    (None, NOON, NOON, NOON, "not believed"),
    (NOON, None, NOON, NOON, "not believed"),
    (NOON, NOON, None, None, "unknown"),
    (None, None, None, None, "unknown"),
]


def corrected(spark: SparkSession, correct: op.CorrectClock, cases: list[Case]) -> list[Any]:
    numbered = [(number, *case[:3]) for number, case in enumerate(cases)]
    rows = spark.createDataFrame(numbered, "number int, at timestamp, sent timestamp, received timestamp")
    return rows.transform(correct).orderBy("number").collect()


def test_plausible_event_times_are_corrected(spark: SparkSession) -> None:
    rows = corrected(spark, CORRECT, CASES)
    assert [(_utc(row.happened), row.happened_clock) for row in rows] == [case[3:] for case in CASES]
    for row, (event, _, _, into, _) in zip(rows, CASES, strict=True):
        difference = None if event is None or into is None else (into - event) // timedelta(milliseconds=1)
        assert row.happened_correction_ms == difference


def test_the_limits_of_plausible_times_can_be_set(spark: SparkSession) -> None:
    strict = op.CorrectClock(
        event="at",
        sent="sent",
        received="received",
        into="at",
        tolerance="5 seconds",
        age_max="1 hour",
        offset_max="1 day",
    )
    second = timedelta(seconds=1)
    cases: list[Case] = [
        (NOON - MINUTE, NOON, NOON + 5 * second, NOON - MINUTE, "kept"),
        (NOON - MINUTE, NOON, NOON + 6 * second, NOON - MINUTE + 6 * second, "corrected"),
        # Kept, but never later than it was received.
        (NOON + 3 * second, NOON + 3 * second, NOON, NOON, "kept"),
        (NOON - 61 * MINUTE, NOON, NOON + MINUTE, NOON + MINUTE, "not believed"),
        (OLD, OLD + MINUTE, NOON, NOON, "not believed"),
    ]
    rows = corrected(spark, strict, cases)
    assert [(_utc(row["at"]), row.at_clock) for row in rows] == [case[3:] for case in cases]


def test_the_corrected_time_becomes_the_event_time(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1), ("ann", 2, 1)])
    declared = rows.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    late_by_an_hour = declared.withColumn("sent", F.col("at")).withColumn(
        "received", F.col("at") + F.expr("interval 1 hour")
    )
    (window,) = late_by_an_hour.transform(CORRECT).transform(op.Tumbling("1 minute")).collect()
    (before,) = declared.transform(op.Tumbling("1 minute")).collect()
    assert window.window_start - before.window_start == timedelta(hours=1)


def test_a_stream_has_its_watermark_by_the_corrected_time(spark: SparkSession, tmp_path: Path) -> None:
    """The device's clock jumps by a day; by the server's, it is the same minute."""

    def per_minute(rows: Any) -> Any:
        sent = rows.withColumnsRenamed({"at": "device"}).withColumn("sent", F.col("device"))
        received = sent.withColumn("received", F.timestamp_seconds(F.col("ms")))
        happened = received.transform(
            op.CorrectClock(event="device", sent="sent", received="received", into="happened")
        )
        watermarked = happened.withWatermark("happened", "0 seconds")
        return watermarked.transform(op.Tumbling("1 minute", aggregate={"n": "count(*)"}))

    stream = Stream(spark, tmp_path, per_minute, watermark=None)
    day_s = 86_400
    emitted = stream.send([("ann", 0, 600), ("bob", day_s, 610)])
    assert emitted == []
    emitted = stream.send([("ann", 5, 620), ("cat", 0, 700)])
    assert [row["n"] for row in emitted] == [3]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"age_max": "0 seconds"}, "age_max"),
        ({"tolerance": "-1 second"}, "tolerance"),
        ({"offset_max": "a lot"}, "offset_max"),
        ({"into": "sent"}, "into"),
        ({"event": ""}, "event"),
    ],
)
def test_an_invalid_correction_is_rejected(change: dict[str, str], field: str) -> None:
    fields: dict[str, Any] = {"event": "at", "sent": "sent", "received": "received", "into": "happened"}
    with pytest.raises(op.BadOperator) as rejected:
        op.CorrectClock(**{**fields, **change})
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_correction_that_does_not_fit_the_rows_is_rejected(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1)])
    with pytest.raises(op.BadOperator, match="'sent', which does not exist"):
        rows.transform(CORRECT)
    with pytest.raises(op.BadOperator, match="not a timestamp") as rejected:
        rows.transform(op.CorrectClock(event="at", sent="ms", received="at", into="happened"))
    assert rejected.value.field == "sent"
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 second")
    with pytest.raises(op.BadOperator, match="has a watermark"):
        stream.transform(
            op.CorrectClock(event="timestamp", sent="timestamp", received="timestamp", into="happened")
        )


def _utc(time: datetime | None) -> datetime | None:
    """Spark gives times in the zone of this process."""
    return None if time is None else time.astimezone(UTC)
