"""The alarm for late rows: one warning for each batch above the fraction, and none otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.operators.late_alarm import LateAlarm, listen_for_late_rows
from headrace.plan_names import ALARM_ABOVE, LATE, LATE_METRIC


def progress(late: int, alarm_above: float | None, *, rows: int = 100, name: str | None = "clicks") -> Any:
    """The progress of a batch as Spark reports it."""
    metrics = {
        f"{LATE_METRIC}tumbling:1f2e": {LATE: late, ALARM_ABOVE: alarm_above},
        "headrace.bad:7": {"bad": 100},
    }
    batch = SimpleNamespace(id="4711", name=name, batchId=3, numInputRows=rows, observedMetrics=metrics)
    return SimpleNamespace(progress=batch)


@pytest.mark.parametrize(
    ("late", "alarm_above", "is_logged"),
    [
        (11, 0.1, True),
        (10, 0.1, False),
        (1, 0.0, True),
        (0, 0.0, False),
        (100, None, False),
        (100, 1.0, False),
    ],
)
def test_more_late_rows_than_the_fraction_are_logged(
    late: int, alarm_above: float | None, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    LateAlarm().onQueryProgress(progress(late, alarm_above))
    assert len(caplog.messages) == is_logged


def test_the_warning_names_query_batch_and_operator(caplog: pytest.LogCaptureFixture) -> None:
    LateAlarm().onQueryProgress(progress(20, 0.1))
    LateAlarm().onQueryProgress(progress(20, 0.1, name=None))
    text = "batch 3: 20 of 100 rows were late for tumbling, more than a fraction of 0.1"
    assert caplog.messages == [f"query clicks, {text}", f"query 4711, {text}"]


def test_a_session_gets_one_listener(spark: SparkSession) -> None:
    listeners = spark._jsparkSession.streams().listListeners
    listen_for_late_rows(spark)
    count = len(listeners())
    listen_for_late_rows(spark)
    assert len(listeners()) == count
