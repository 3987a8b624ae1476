"""The watermark of results that Spark itself has made: a job knows it, and writes it down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.pipeline import read_topic
from tests.pipeline.journal_sink import Journal, rows_in
from tests.pipeline.test_job import drain

pytestmark = pytest.mark.timeout(300)


def event(user: str, minute: int) -> dict[str, Any]:
    return {"user": user, "at": f"2026-03-01T10:{minute:02}:30Z"}


@pytest.mark.parametrize(
    "window",
    [op.Tumbling("1 minute", by="user"), op.Session(gap="1 minute", by="user")],
    ids=["tumbling", "session"],
)
def test_results_of_sparks_windows_tell_the_watermark_as_those_of_the_core_do(
    spark: SparkSession, topic: str, send: Callable[..., None], tmp_path: Path, name: str, window: Any
) -> None:
    def said(window: op.Operator, way: str) -> list[dict[str, Any]]:
        rows = read_topic(
            spark, topic, schema="user STRING, at TIMESTAMP", event_time="at", watermark="30 seconds"
        )
        journal = Journal(tmp_path / f"{way}.db")
        drain(f"{name}-{way}", rows.transform(window), journal)
        return rows_in(journal.path)

    told: dict[str, list[dict[str, Any]]] = {"native": [], "core": []}
    for part in ([event("ann", 1), event("bob", 5)], [event("ann", 20)]):
        send(topic, *part)
        told = {
            "native": said(window, "native"),
            "core": said(replace(window, trigger=op.Trigger()), "core"),
        }
    assert len(told["native"]) == 2
    assert all(row["watermark"] is not None for row in told["native"])
    for rows in told.values():
        for row in rows:
            assert str(row["watermark"]) >= str(row["window_end"])
    assert sorted(map(str, told["native"])) == sorted(map(str, told["core"]))
