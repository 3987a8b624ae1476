"""Watermarks of several topics: the slowest or the fastest counts, and an idle source does not hold back the others."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.operators.merge import Policy
from headrace.pipeline import Job, read_topic
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadJob, BadSource
from headrace.pipeline.fence import Fence
from headrace.pipeline.graph import plan
from headrace.pipeline.source.heartbeats import signal_file
from headrace.pipeline.source.idle_watch import IdleSince, IdleWatch
from headrace.pipeline.source.spec import SourceSpec
from headrace.testing.manual_clock import ManualClock
from tests.pipeline.journal_sink import Journal, rows_in
from tests.pipeline.test_job import drain, eventually

pytestmark = pytest.mark.timeout(300)

SCHEMA = "user STRING, at TIMESTAMP"
BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)
Send = Callable[..., None]
CreateTopic = Callable[..., str]


def event(user: str, at: datetime) -> dict[str, Any]:
    return {"user": user, "at": at.isoformat()}


def read(spark: SparkSession, topic: str, **more: Any) -> DataFrame:
    return read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="0 seconds", **more)


def per_source(merged: DataFrame, length: str) -> DataFrame:
    counted = op.Tumbling(length, by="source", aggregate={"n": "count(*)"})
    return merged.transform(counted).select("source", "n")


def by_source(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return sorted((row["source"], row["n"]) for row in rows)


@pytest.fixture
def web(create_topic: CreateTopic) -> str:
    return create_topic(suffix="-web")


@pytest.fixture
def app(create_topic: CreateTopic) -> str:
    return create_topic(suffix="-app")


def test_policy_chooses_the_watermark(
    spark: SparkSession, web: str, app: str, send: Send, tmp_path: Path, name: str
) -> None:
    send(web, event("ann", BEGIN), event("ann", BEGIN + timedelta(minutes=5)))
    send(app, event("bob", BEGIN), event("bob", BEGIN + timedelta(seconds=10)))

    def merged(policy: Policy) -> DataFrame:
        both = {"web": read(spark, web), "app": read(spark, app)}
        return per_source(op.Merge(policy=policy)(both), "1 minute")

    slow, fast = Journal(tmp_path / "slow.db"), Journal(tmp_path / "fast.db")
    drain(f"{name}-max", merged("max"), fast)
    assert sorted(row["source"] for row in rows_in(fast.path)) == ["app", "web"]
    drain(f"{name}-min", merged("min"), slow)
    assert rows_in(slow.path) == []
    # A restarted job has the watermark of all, and advances it after a row of each source.
    send(web, event("ann", BEGIN + timedelta(minutes=6)))
    send(app, event("bob", BEGIN + timedelta(minutes=1)))
    drain(f"{name}-min", merged("min"), slow)
    assert by_source(rows_in(slow.path)) == by_source(rows_in(fast.path)) == [("app", 2), ("web", 1)]
    with pytest.raises(BadJob, match=r"merge with the min .* merge with the max"):
        Job(f"{name}-min", merged("max"), slow).start()
    with pytest.raises(BadJob, match="different policies"):
        Job(name, merged("min").union(merged("max")), slow).start()


def test_idle_source_does_not_hold_back_the_others(
    spark: SparkSession, web: str, app: str, send: Send, tmp_path: Path, name: str
) -> None:
    both = {"web": read(spark, web), "app": read(spark, app, idle="1 second")}
    journal = Journal(tmp_path / "journal.db")
    now = datetime.now(UTC)
    send(app, event("bob", now - timedelta(hours=3)))
    send(web, event("ann", now - timedelta(hours=2)), event("ann", now - timedelta(hours=1)))
    running = Job(name, per_source(op.Merge()(both), "1 second"), journal).start()
    try:
        # The watermark of the idle source alone would not let these windows close.
        eventually(lambda: rows_in(journal.path) == [{"source": "app", "n": 1}, {"source": "web", "n": 1}])
        status = eventually(lambda: running.status() if running.status().lag is not None else None)
        assert status.sources == (f"topic {web}", f"topic {app}")
        # Its next row is not late.
        send(app, event("bob", now - timedelta(minutes=50)))
        eventually(lambda: running.status().rows_in >= 4)
        send(web, event("ann", now - timedelta(minutes=40)))
        expected = [{"source": "app", "n": 1}] * 2 + [{"source": "web", "n": 1}] * 2
        eventually(lambda: rows_in(journal.path) == expected)
    finally:
        running.stop()
    assert running.status().late_rows == 0


def at_offset(folder: Path, topic: str, offset: int) -> Checkpoint:
    """A checkpoint whose last committed batch ended there."""
    checkpoint = Checkpoint(folder)
    text = f'{{"{topic}":{{"0":{offset}}}}}'
    beats = '{"headrace.idle_us":0}'
    fence = Fence(job="j", checkpoint="c", batch_id=1, starts=(text, beats), ends=(text, beats))
    checkpoint.restore(fence, conf={}, now_ms=0)
    return checkpoint


def spec_of(rows: DataFrame) -> SourceSpec:
    (spec,) = [source.spec for source in plan.read(rows).sources if source.spec is not None]
    return spec


def test_source_with_lag_is_not_idle(spark: SparkSession, topic: str, send: Send, tmp_path: Path) -> None:
    send(topic, event("ann", BEGIN), event("ann", BEGIN))
    spec = spec_of(read(spark, topic, idle="10 seconds"))
    clock = ManualClock(round(BEGIN.timestamp() * 1000))
    behind = IdleWatch("behind", [spec], at_offset(tmp_path / "behind", topic, 1), clock=clock)
    for _ in range(3):
        assert not behind.look(spec)
        clock.advance_ms(100_000)
    assert not signal_file(spec.id).exists()

    at_end = IdleWatch("at-end", [spec], at_offset(tmp_path / "at-end", topic, 2), clock=clock)
    assert not at_end.look(spec), "the time starts with the first look"
    clock.advance_ms(9_000)
    assert not at_end.look(spec)
    clock.advance_ms(1_000)
    try:
        assert at_end.look(spec)
        beat = datetime.fromtimestamp(int(signal_file(spec.id).read_text()) / 1e6, UTC)
        assert beat == BEGIN + timedelta(seconds=clock.monotonic_s() - 10)
        send(topic, event("ann", BEGIN))
        assert not at_end.look(spec)
    finally:
        signal_file(spec.id).unlink(missing_ok=True)


def test_heartbeat_waits_for_all_jobs_of_a_source(
    spark: SparkSession, topic: str, send: Send, tmp_path: Path
) -> None:
    send(topic, event("ann", BEGIN))
    spec = spec_of(read(spark, topic, idle="1 hour"))
    clock = ManualClock(round(BEGIN.timestamp() * 1000))
    at_end = IdleWatch("at-end", [spec], at_offset(tmp_path / "at-end", topic, 1), clock=clock)
    behind = IdleWatch("behind", [spec], at_offset(tmp_path / "behind", topic, 0), clock=clock)
    assert not at_end.look(spec)
    clock.advance_ms(3_600_000)
    assert at_end.look(spec)
    assert signal_file(spec.id).exists()
    at_end.begin()
    behind.begin()
    try:
        assert not signal_file(spec.id).exists(), "a job that starts must not see an older heartbeat"
        assert at_end.look(spec)
        assert not signal_file(spec.id).exists()
    finally:
        behind.end()
        at_end.end()


@pytest.mark.parametrize(
    ("position", "idle_s", "is_idle"),
    [
        ({"t": {0: 5, 1: 7}}, 10, True),
        ({"t": {0: 5, 1: 7}}, 11, False),
        ({"t": {0: 5, 1: 6}}, 10, False),
        ({"t": {0: 5}}, 10, False),
        ({}, 10, False),
    ],
)
def test_source_is_idle_after_the_time_and_without_lag(position: Any, idle_s: float, is_idle: bool) -> None:
    idle_since = IdleSince(ends={"t": {0: 5, 1: 7}}, since_s=100.0)
    assert idle_since.is_idle(position, idle_s, 110.0) is is_idle
    assert idle_since.after({"t": {0: 5, 1: 7}}, 110.0) == idle_since
    assert idle_since.after({"t": {0: 6, 1: 7}}, 110.0).since_s == 110.0


def test_idle_needs_a_watermark(spark: SparkSession, topic: str) -> None:
    with pytest.raises(BadSource, match="needs a watermark"):
        read_topic(spark, topic, schema=SCHEMA, event_time="at", idle="1 minute")
    with pytest.raises(op.BadOperator, match="idle"):
        read(spark, topic, idle="soon")


def test_heartbeat_is_no_row(spark: SparkSession, topic: str, send: Send, tmp_path: Path, name: str) -> None:
    send(topic, event("ann", BEGIN))
    journal = Journal(tmp_path / "journal.db")
    rows = read(spark, topic, idle="1 second").select("user")
    running = Job(name, rows, journal).start()
    try:
        # Each heartbeat is a batch.
        eventually(lambda: (running.status().batch_id or 0) >= 3)
    finally:
        running.stop()
    assert rows_in(journal.path) == [{"user": "ann"}]
    assert time.time() - datetime.fromisoformat(str(running.status().watermark)).timestamp() < 3600
