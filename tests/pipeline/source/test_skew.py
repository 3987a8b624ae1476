"""How long after they happened events are processed, as a job reports it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import Job, read_topic
from headrace.pipeline.source.skew import Skew, skew_of
from tests.pipeline.journal_sink import Journal, rows_in

WAIT_S = 250.0
HOUR_MS = 3_600_000


def test_worst_of_several_sources_is_reported() -> None:
    observed = {
        "headrace.bad:x": {"bad": 0, "skew_ms": [10, 500, 600]},
        "headrace.bad:y": {"bad": 1, "skew_ms": [20, 300, 900]},
        "headrace.bad:z": {"bad": 0, "skew_ms": None},
        "somebody-else": 7,
    }
    assert skew_of({"observedMetrics": observed}) == Skew(ms_p50=20, ms_p95=500, ms_p99=900)
    assert skew_of({"observedMetrics": {"headrace.bad:x": {"bad": 0}}}) is None
    assert skew_of({}) is None


@pytest.mark.timeout(300)
def test_job_reports_the_skew_of_its_events(
    spark: SparkSession, topic: str, send: Callable[..., None], name: str, tmp_path: Path
) -> None:
    """Ninety of a hundred are a little over an hour old, the others a day; those that can't be read don't count."""
    now = datetime.now(UTC)
    ages = [timedelta(days=1) if number % 80 < 8 else timedelta(hours=1) for number in range(800)]
    send(topic, b"no json", *[{"n": 1, "at": (now - age).isoformat()} for age in ages])
    rows = read_topic(spark, topic, schema="n INT, at TIMESTAMP", event_time="at")
    journal = Journal(tmp_path / "journal.db")
    running = Job(name, rows.select("n"), journal, mode="batch").start()
    assert running.wait(WAIT_S)
    status = running.status()
    assert (len(rows_in(journal.path)), status.dead_letters) == (800, 1)
    assert status.skew_ms_p50 is not None
    assert status.skew_ms_p95 is not None
    assert HOUR_MS <= status.skew_ms_p50 < 2 * HOUR_MS
    assert 24 * HOUR_MS <= status.skew_ms_p95 < 26 * HOUR_MS
    assert status.skew_ms_p99 is not None
    assert status.skew_ms_p99 >= status.skew_ms_p95
