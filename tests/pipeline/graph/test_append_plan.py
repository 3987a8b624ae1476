"""Windows that run natively on Spark run on the state core in a job whose output mode is append."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.pipeline import Job, read_topic
from headrace.pipeline.graph.append_plan import for_append
from headrace.pipeline.sinks.sink import OutputMode
from tests.pipeline.journal_sink import Journal, rows_in

COUNTS = {
    "n": "count(*)",
    "slowest": "max(ms)",
    "mean": "avg(ms)",
    "first_url": "first(url)",
    "urls": "collect(url)",
}

WINDOWS: dict[str, op.Operator] = {
    "tumbling": op.Tumbling("1 minute", by="user", aggregate=COUNTS),
    "hopping": op.Hopping("1 minute", every="20 seconds", by="user", aggregate=COUNTS),
    "session": op.Session(gap="15 seconds", by="user", aggregate=COUNTS),
    "all rows": op.Tumbling("1 minute", aggregate=COUNTS),
}


@pytest.fixture
def clicks(spark: SparkSession, topic: str) -> DataFrame:
    return read_topic(
        spark,
        topic,
        schema="user STRING, url STRING, ms INT, at TIMESTAMP",
        event_time="at",
        watermark="10 seconds",
    )


def tree(rows: DataFrame) -> str:
    text: str = rows._jdf.queryExecution().analyzed().treeString()
    return text


def is_on_core(rows: DataFrame) -> bool:
    return "TransformWithState" in tree(rows)


@pytest.mark.parametrize("window", WINDOWS)
def test_window_runs_on_the_core_with_the_same_columns(clicks: DataFrame, window: str) -> None:
    native = clicks.transform(WINDOWS[window])
    replaced = for_append(native)
    assert (is_on_core(native), is_on_core(replaced)) == (False, True)
    assert [(each.name, each.dataType, each.metadata) for each in replaced.schema] == [
        (each.name, each.dataType, each.metadata) for each in native.schema
    ]


def test_windows_below_stateless_steps_are_replaced(clicks: DataFrame) -> None:
    counts = clicks.transform(WINDOWS["tumbling"])
    sessions = clicks.transform(WINDOWS["session"])
    both = counts.where("n > 1").select("user", "n").union(sessions.select("user", F.col("n") + 1))
    replaced = for_append(both)
    assert tree(replaced).count("TransformWithState") == 2
    assert "Aggregate" not in tree(replaced)
    assert [(each.name, each.dataType) for each in replaced.schema] == [
        (each.name, each.dataType) for each in both.schema
    ]


@pytest.mark.parametrize(
    "rows",
    [
        lambda clicks: clicks,
        lambda clicks: clicks.transform(WINDOWS["tumbling"]).dropDuplicates(["user"]),
        lambda clicks: clicks.transform(op.Tumbling("1 minute", aggregate={"middle": "median(ms)"})),
    ],
    ids=["no window", "a step with state behind it", "an aggregate that only Spark has"],
)
def test_other_rows_stay_as_they_are(clicks: DataFrame, rows: Callable[[DataFrame], DataFrame]) -> None:
    given = rows(clicks)
    assert for_append(given) is given


@pytest.mark.parametrize("window", WINDOWS)
def test_jobs_of_both_modes_have_the_same_final_results(
    clicks: DataFrame, topic: str, send: Callable[..., None], tmp_path: Path, name: str, window: str
) -> None:
    for second in range(0, 200, 3):
        at = f"2026-01-01T00:{second // 60:02}:{second % 60:02}Z"
        send(topic, {"user": f"u{second % 5}", "url": f"/{second}", "ms": second % 7, "at": at})

    def results(mode: OutputMode) -> set[str]:
        journal = Journal(tmp_path / f"{mode}.db")
        rows = (
            clicks.transform(WINDOWS[window]).where("window_end < '2026-01-01T00:02:00Z'").drop("watermark")
        )
        Job(f"{name}-{mode}", rows, journal, mode="batch", output_mode=mode).start().wait()
        return {str(sorted(row.items())) for row in rows_in(journal.path)}

    on_core = results("append")
    assert on_core
    assert on_core <= results("complete")
