"""Enrichment on Spark, beside an oracle: bounded rows, and streams from topics that start anew."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.state.inspect import read_state
from headrace.pipeline import read_topic
from tests.operators.joins.oracles import Answer, Asked, Change, as_of
from tests.operators.joins.topic_streams import TopicStreams, split
from tests.operators.streams import EPOCH_S, EventRow, at, bounded, since_epoch

VIEW = "user_id string, at timestamp, number int, tags array<string>"
USER = "id string, points int"
DELAY_S = 60
pytestmark = pytest.mark.timeout(600)  # a stream starts within seconds, and minutes where much else goes on
END_S = 1_000_000


def some_views(count: int) -> list[Asked]:
    views = random.Random(11)
    keys = [*"abcdefgh", None]
    return [(views.choice(keys), views.randint(0, 3600), number) for number in range(count)]


def some_changes(count: int) -> list[Change]:
    changes = random.Random(12)
    made = {}
    for points in range(count):
        key, since = changes.choice("abcdef"), changes.randint(0, 3600)
        made[key, since] = (key, since, 0, points if changes.random() < 0.8 else None)
    return list(made.values())


VIEWS, CHANGES = some_views(80), some_changes(60)


def as_views(rows: list[Asked]) -> list[dict[str, Any]]:
    return [
        {"user_id": key, "at": at(time), "number": number, "tags": [f"t{number}"]}
        for key, time, number in rows
    ]


def as_changes(changes: list[Change]) -> list[dict[str, Any]]:
    """As Debezium writes them; a delete tells the key alone."""
    made = []
    for key, since, _, points in changes:
        row = {"id": key, "points": points}
        kind = (
            {"op": "d", "before": {"id": key}}
            if points is None
            else {"op": "u", "before": None, "after": row}
        )
        made.append({**kind, "ts_ms": (EPOCH_S + since) * 1000})
    return made


def answers(rows: list[dict[str, Any]]) -> Counter[Answer]:
    return Counter(
        (row["user_id"], int(since_epoch(row["at"])), row["number"], row["points"])
        for row in rows
        if row["at"] and row["number"] >= 0
    )


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


class Views(TopicStreams):
    """Views and the changes of users, each in a topic."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        super().__init__(spark, bootstrap, folder, ["views", "users"])

    def enriched(self, is_bounded: bool, *, users_watermark: str | None = None, **said: Any) -> DataFrame:
        views = read_topic(
            self.spark,
            self.topics["views"],
            schema=VIEW,
            event_time="at",
            watermark=f"{DELAY_S} seconds",
            bounded=is_bounded,
        )
        users = read_topic(
            self.spark,
            self.topics["users"],
            schema=USER,
            format="changes",
            event_time="_change_ts",
            watermark=users_watermark,
            bounded=is_bounded,
        )
        return views.transform(op.Enrich(users, on={"user_id": "id"}, **said))

    def end(self) -> None:
        """Both go on, so much later that the time of all others has passed."""
        self.send(views=as_views([("end", END_S, -1)]), users=as_changes([("end", END_S, 0, 1)]))


def test_as_of_event_time_a_restarted_stream_gives_the_batch_result(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    streams = Views(spark, bootstrap, tmp_path)
    arrivals = random.Random(13)

    def late_by_less_than_the_delay(event: Any) -> float:
        return float(event[1]) + arrivals.uniform(0, DELAY_S)

    views, changes = (sorted(each, key=late_by_less_than_the_delay) for each in (VIEWS, CHANGES))
    said: list[dict[str, Any]] = []
    for some, others in zip(split(views, 2), split(changes, 2), strict=True):
        streams.send(views=as_views(some), users=as_changes(others))
        said += streams.drain(streams.enriched(False, users_watermark=f"{DELAY_S} seconds"))
    assert 0 < len(said) < len(VIEWS), "some are answered on the way, and not all"
    streams.end()
    said += streams.drain(streams.enriched(False, users_watermark=f"{DELAY_S} seconds"))
    expected = Counter(as_of(VIEWS, CHANGES))
    assert answers(said) == expected
    assert answers(collected(streams.enriched(True))) == expected
    assert {row["number"]: row["tags"] for row in said} == {number: [f"t{number}"] for _, _, number in VIEWS}


def test_rows_can_wait_for_the_latest_entry(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    streams = Views(spark, bootstrap, tmp_path)

    def drained() -> list[tuple[str, int, int | None]]:
        query = streams.enriched(False, as_of="latest", wait="10 minutes")
        return sorted((row["user_id"], row["number"], row["points"]) for row in streams.drain(query))

    streams.send(
        users=as_changes([("a", 50, 0, 1), ("a", 60, 0, 2), ("c", 1, 0, 3)]),
        views=as_views([("a", 0, 1), ("b", 100, 2), ("c", 100, 3), ("d", 100, 4)]),
    )
    assert drained() == [("a", 1, 2), ("c", 3, 3)]
    kept = read_state(spark, tmp_path / "query").to_pylist()
    assert sorted(row["user_id"] for row in kept) == ["a", "b", "c", "d"]
    streams.send(
        users=as_changes([("b", 500, 0, 5), ("c", 500, 0, None)]),
        views=as_views([("c", 300, 5), ("a", 300, 6)]),
    )
    assert drained() == [("a", 6, 2), ("b", 2, 5)]
    streams.send(views=as_views([("a", 5000, 7)]))
    assert drained() == [("a", 7, 2), ("c", 5, None), ("d", 4, None)]


def test_windows_over_enriched_rows_end(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    streams = Views(spark, bootstrap, tmp_path)

    def query(is_bounded: bool) -> DataFrame:
        enriched = streams.enriched(is_bounded, unmatched=None)
        return enriched.transform(op.Tumbling("1 hour", by="points", aggregate={"n": "count(*)"}))

    streams.send(users=as_changes([("a", 0, 0, 1), ("b", 0, 0, 1), ("b", 1800, 0, 2)]))
    views: list[Asked] = [
        ("a", 10, 1),
        ("a", 3000, 2),
        ("b", 1000, 3),
        ("b", 2000, 4),
        ("x", 2000, 5),
        ("a", 3700, 6),
    ]
    streams.send(views=as_views(views))
    said = streams.drain(query(False))
    streams.end()
    said += streams.drain(query(False))
    per_hour = {(since_epoch(row["window_start"]), row["points"], row["n"]) for row in said}
    assert per_hour == {(0, 1, 3), (0, 2, 1), (3600, 1, 1)}
    assert len(said) == 3
    at_once = collected(query(True).filter(F.col("points") > 0))
    assert {(since_epoch(row["window_start"]), row["points"], row["n"]) for row in at_once} >= per_hour


ENTRIES: list[EventRow] = [("ann", 0, 1), ("ann", 100, 2), ("bob", 50, 3), ("bob", 60, None)]


def test_plain_rows_are_a_table_by_key_and_time(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 99, 1), ("ann", 100, 2), ("bob", 55, 3), ("bob", 70, 4), (None, 1, 5)])
    table = bounded(spark, ENTRIES)
    enrich = op.Enrich(table, on="user", time="at", table_time="at", deleted="ms is null", columns=["ms"])
    enriched = enrich(rows)
    assert enriched.columns == ["user", "at", "ms", "ms_table"]
    assert sorted(
        (row["ms"], row["ms_table"]) for row in enriched.collect() if row["ms"] != 4 and row["ms"] != 5
    ) == [
        (1, 1),
        (2, 2),
        (3, 3),
    ]
    assert {row["ms"] for row in enriched.collect() if row["ms_table"] is None} == {4, 5}
    inner = op.Enrich(table, on="user", time="at", table_time="at", deleted="ms is null", unmatched=None)
    assert sorted(row["ms"] for row in inner(rows).collect()) == [1, 2, 3]
    latest = op.Enrich(table, on="user", as_of="latest", table_time="at", deleted="ms is null", suffix="_now")
    assert sorted((row["ms"], row["ms_now"]) for row in latest(rows).collect() if row["user"] == "ann") == [
        (1, 2),
        (2, 2),
    ]


def test_rows_and_entries_without_a_time(spark: SparkSession) -> None:
    some: list[EventRow] = [("ann", 1, 1), ("bob", 1, 2)]
    rows, table = bounded(spark, some), bounded(spark, [("ann", 5, 7), ("bob", 5, 8)])
    timeless = F.when(F.col("user") == "ann", F.lit(None)).otherwise(F.col("at")).cast("timestamp")
    since_ever = op.Enrich(table.withColumn("at", timeless), on="user", time="at", table_time="at")
    assert {row["user"]: row["ms_table"] for row in since_ever(rows).collect()} == {"ann": 7, "bob": None}
    without = op.Enrich(table, on="user", time="at", table_time="at")(rows.withColumn("at", timeless))
    assert {row["user"]: row["ms_table"] for row in without.collect()} == {"ann": None, "bob": None}
    latest = op.Enrich(table, on="user", as_of="latest", table_time="at")(rows.withColumn("at", timeless))
    assert {row["user"]: row["ms_table"] for row in latest.collect()} == {"ann": 7, "bob": 8}
