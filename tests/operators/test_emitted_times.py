"""The event time that an operator emits: its lag, and plans with two watermarks."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.emitted_times import EmittedTime, emitted_time, lag_of, panes_of, with_last_instant
from headrace.operators.operator import second_watermark


def test_a_lag_adds_up_along_the_chain(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    waiting = rows.transform(op.Enrich(rows, on="value", wait="3 minutes", suffix="_1"))
    assert emitted_time(waiting, "timestamp") == EmittedTime(lag_us=180_000_000)
    kept = waiting.transform(op.Enrich(rows, on="value", keep="1 minute", suffix="_2"))
    windows = kept.transform(op.Tumbling("1 minute", late=op.Correct(within="1 hour")))
    assert emitted_time(windows, "window_end") == EmittedTime(
        lag_us=(180 + 60 + 3_600) * 1_000_000, is_window_end=True, panes="retracting"
    )
    assert (lag_of(windows), panes_of(windows)) == (3_840_000_000, "retracting")
    assert (lag_of(rows), panes_of(rows)) == (0, "one")


def test_a_join_lags_by_the_time_that_it_waits(spark: SparkSession) -> None:
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    waiting = rows.transform(op.Enrich(rows, on="value", wait="3 minutes", suffix="_1"))
    joined = rows.transform(op.JoinWithin(waiting, on="value", before="2 minutes", after="5 minutes"))
    assert emitted_time(joined, "timestamp") == EmittedTime(lag_us=(180 + 300) * 1_000_000)
    earlier = rows.transform(op.JoinWithin(rows, on="value", before="2 minutes"))
    assert emitted_time(earlier, "timestamp") == EmittedTime()
    windows = waiting.transform(op.JoinWindow(rows, on="value", length="1 minute"))
    assert emitted_time(windows, "window_end") == EmittedTime(lag_us=180_000_000, is_window_end=True)
    absent = rows.transform(op.Absence(on="value", within="5 minutes"))
    assert emitted_time(absent, "timestamp") == EmittedTime(lag_us=300_000_000)


def test_the_time_of_a_result_is_the_last_instant_of_its_window(spark: SparkSession) -> None:
    rows = spark.sql("select timestamp'2026-03-01 10:59:30' as at")
    minutes = rows.transform(op.Tumbling("1 minute", time="at"))
    with_instant, name = with_last_instant(minutes, "window_end")
    found = with_instant.select(F.date_format(name, "HH:mm:ss.SSSSSS")).collect()
    assert [row[0] for row in found] == ["10:59:59.999999"]
    assert not emitted_time(with_instant, name).is_window_end


def test_a_watermark_above_another_is_found() -> None:
    above = "~Project [x]\n+- ~EventTimeWatermark a\n   +- EventTimeWatermark c\n      +- Relation"
    beside = "Union\n:- EventTimeWatermark a\n:  +- Relation\n+- Project\n   +- EventTimeWatermark b\n      +- Relation"
    assert second_watermark(above)
    assert not second_watermark(beside)
