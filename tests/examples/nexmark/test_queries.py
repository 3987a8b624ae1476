"""Every query of Nexmark has its expected rows, bounded and as a stream.

The queries of a group share one stream of several micro-batches, because each stream costs seconds.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from examples.nexmark.events import SCHEMAS, TIMES, WATERMARK, closing_events, events, rows_of
from headrace.testing import Collect, Feed
from tests.examples.nexmark import expected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = Mapping[str, Any]

ABOUT_THE_ROW = ("op", "pane", "revision", "watermark")
BATCH_ENDS = (250, 450)
"""Each of them is in the middle of a busy moment, so that events overtake each other across batches."""

STREAMS = {
    "rows": ("q0", "q1", "q2", "q14", "q21", "q22"),
    "windows": ("q5", "q8", "q11", "q15", "q16"),
    "joins": ("q3", "q7", "q9", "q20"),
    "tables": ("q4", "q17", "q18", "q19"),
}


@functools.cache
def queries() -> Mapping[str, Any]:
    from examples.nexmark.queries import QUERIES  # pyspark is imported only by tests that need it

    return QUERIES


def rows_expected(name: str) -> Counter[tuple[tuple[str, Any], ...]]:
    compute = getattr(expected, name)
    found = events()
    return counted(compute(*(rows_of(topic, found) for topic in inspect.signature(compute).parameters)))


def counted(rows: Iterable[Row]) -> Counter[tuple[tuple[str, Any], ...]]:
    """How often each row was emitted, less how often it was retracted."""
    counts: Counter[tuple[tuple[str, Any], ...]] = Counter()
    for row in rows:
        own = tuple(sorted((name, each) for name, each in row.items() if name not in ABOUT_THE_ROW))
        counts[own] += -1 if row.get("op") == "-" else 1
    return Counter({row: count for row, count in counts.items() if count})


def assert_expected(name: str, rows: Iterable[Row]) -> None:
    wanted, found = rows_expected(name), counted(rows)
    assert wanted, "the events do not show this query"
    missing = [row for row in wanted if found[row] != wanted[row]]
    unexpected = [row for row in found if found[row] != wanted[row]]
    assert (missing, unexpected) == ([], []), f"{name}: {len(wanted)} rows expected, {len(found)} found"


def test_every_query_has_its_expected_rows_here() -> None:
    streamed = [name for names in STREAMS.values() for name in names]
    assert sorted(streamed) == sorted(queries())
    assert len(streamed) == 19


def test_events_arrive_out_of_order_but_none_is_late() -> None:
    latest, behind_s = events()[0].time, 0.0
    for event in events():
        behind_s = max(behind_s, (latest - event.time).total_seconds())
        latest = max(latest, event.time)
    assert 1 < behind_s < int(WATERMARK.split()[0])


@pytest.mark.timeout(300)
def test_bounded_queries_return_the_expected_rows(spark: SparkSession) -> None:
    from examples.nexmark.streams import bounded

    streams = {topic: rows.cache() for topic, rows in bounded(spark).items()}
    for name, query in queries().items():
        assert_expected(name, query(streams).toArrow().to_pylist())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", STREAMS)
def test_streaming_queries_end_with_the_expected_rows(
    group: str, spark: SparkSession, tmp_path: Path
) -> None:
    from examples.nexmark.streams import until_closed
    from headrace.pipeline import Job

    streams = {}
    for topic, schema in SCHEMAS.items():
        feed = Feed(spark, schema, tmp_path / topic)
        for batch in batches():
            feed.send(*rows_of(topic, batch))
        streams[topic] = until_closed(topic, feed.rows.withWatermark(TIMES[topic], WATERMARK))
    results = {name: queries()[name](streams) for name in STREAMS[group]}
    collected = Collect()
    Job(f"nexmark-{group}", together(results), collected, mode="batch").start().wait()
    for name in results:
        prefix = f"{name}."
        rows = (
            {column.removeprefix(prefix): each for column, each in row.items() if column.startswith(prefix)}
            | {"op": row["op"]}
            for row in collected.rows
            if row["query"] == name
        )
        assert_expected(name, rows)


def batches() -> list[Sequence[Any]]:
    found = events()
    bounds = [0, *BATCH_ENDS, len(found)]
    return [*(found[start:end] for start, end in itertools.pairwise(bounds)), closing_events()]


def together(results: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of several queries as one stream: `query`, `op`, and the columns of each query under its own names."""
    from pyspark.sql import functions as F

    columns = [
        rows.select(
            F.lit(name).alias("query"),
            F.col("op") if "op" in rows.columns else F.lit("+").alias("op"),
            *(F.col(each).alias(f"{name}.{each}") for each in rows.columns if each not in ABOUT_THE_ROW),
        )
        for name, rows in results.items()
    ]
    return functools.reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), columns)
