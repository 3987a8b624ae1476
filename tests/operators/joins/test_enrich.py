"""Enrichment on Spark, beside an oracle: bounded rows, and streams from topics that restart."""

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
from headrace.operators.tables.columns import is_changelog
from headrace.pipeline import read_topic
from tests.operators.joins.oracles import Change, Enriched, Lookup, as_of
from tests.operators.joins.topic_streams import TopicStreams, split
from tests.operators.streams import EPOCH_S, EventRow, at, bounded, since_epoch

VIEW = "user_id string, at timestamp, number int, tags array<string>"
USER = "id string, points int"
DELAY_S = 60
pytestmark = pytest.mark.timeout(600)  # a stream starts within seconds, and minutes on a busy machine
END_S = 1_000_000


def some_views(count: int) -> list[Lookup]:
    views = random.Random(11)
    keys = [*"abcdefgh", None]
    return [(views.choice(keys), views.randint(0, 3600), number) for number in range(count)]


def some_changes(count: int) -> list[Change]:
    changes = random.Random(12)
    created = {}
    for points in range(count):
        key, since = changes.choice("abcdef"), changes.randint(0, 3600)
        created[key, since] = (key, since, 0, points if changes.random() < 0.8 else None)
    return list(created.values())


VIEWS, CHANGES = some_views(80), some_changes(60)


def as_views(rows: list[Lookup]) -> list[dict[str, Any]]:
    return [
        {"user_id": key, "at": at(time), "number": number, "tags": [f"t{number}"]}
        for key, time, number in rows
    ]


def as_changes(changes: list[Change]) -> list[dict[str, Any]]:
    """As Debezium writes them; a delete has only the key."""
    created = []
    for key, since, _, points in changes:
        row = {"id": key, "points": points}
        kind = (
            {"op": "d", "before": {"id": key}}
            if points is None
            else {"op": "u", "before": None, "after": row}
        )
        created.append({**kind, "ts_ms": (EPOCH_S + since) * 1000})
    return created


def results_of(rows: list[dict[str, Any]]) -> Counter[Enriched]:
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

    def enriched(self, is_bounded: bool, *, users_watermark: str | None = None, **settings: Any) -> DataFrame:
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
        return views.transform(op.Enrich(users, on={"user_id": "id"}, **settings))

    def end(self) -> None:
        """A later row of both, so that the watermark passes all others."""
        self.send(views=as_views([("end", END_S, -1)]), users=as_changes([("end", END_S, 0, 1)]))


def test_as_of_event_time_a_restarted_stream_gives_the_batch_result(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    streams = Views(spark, bootstrap, tmp_path)
    arrivals = random.Random(13)

    def late_by_less_than_the_delay(event: Any) -> float:
        return float(event[1]) + arrivals.uniform(0, DELAY_S)

    views, changes = (sorted(each, key=late_by_less_than_the_delay) for each in (VIEWS, CHANGES))
    emitted: list[dict[str, Any]] = []
    for some, others in zip(split(views, 2), split(changes, 2), strict=True):
        streams.send(views=as_views(some), users=as_changes(others))
        emitted += streams.drain(streams.enriched(False, users_watermark=f"{DELAY_S} seconds"))
    assert 0 < len(emitted) < len(VIEWS), "some rows are emitted early, and not all"
    streams.end()
    emitted += streams.drain(streams.enriched(False, users_watermark=f"{DELAY_S} seconds"))
    expected = Counter(as_of(VIEWS, CHANGES))
    assert results_of(emitted) == expected
    assert results_of(collected(streams.enriched(True))) == expected
    assert {row["number"]: row["tags"] for row in emitted} == {
        number: [f"t{number}"] for _, _, number in VIEWS
    }


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
    views: list[Lookup] = [
        ("a", 10, 1),
        ("a", 3000, 2),
        ("b", 1000, 3),
        ("b", 2000, 4),
        ("x", 2000, 5),
        ("a", 3700, 6),
    ]
    streams.send(views=as_views(views))
    emitted = streams.drain(query(False))
    streams.end()
    emitted += streams.drain(query(False))
    per_hour = {(since_epoch(row["window_start"]), row["points"], row["n"]) for row in emitted}
    assert per_hour == {(0, 1, 3), (0, 2, 1), (3600, 1, 1)}
    assert len(emitted) == 3
    at_once = collected(query(True).filter(F.col("points") > 0))
    assert {(since_epoch(row["window_start"]), row["points"], row["n"]) for row in at_once} >= per_hour


def test_a_late_change_corrects_emitted_rows(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    streams = Views(spark, bootstrap, tmp_path)

    def query(is_bounded: bool) -> DataFrame:
        return streams.enriched(is_bounded, keep="1 hour", corrections="retract", columns=["points"])

    def counted(rows: list[dict[str, Any]]) -> Counter[tuple[str, int, int | None]]:
        found: Counter[tuple[str, int, int | None]] = Counter()
        for row in rows:
            if row["number"] >= 0:
                found[row["user_id"], row["number"], row["points"]] += 1 if row["op"] == "+" else -1
        return found

    views: list[Lookup] = [("a", 10, 1), ("a", 700, 2), ("b", 20, 3), (None, 30, 4)]
    streams.send(users=as_changes([("a", 0, 0, 1)]), views=as_views([*views, ("a", 1000, -1)]))
    emitted = streams.drain(query(False))
    assert counted(emitted) == Counter([("a", 1, 1), ("a", 2, 1), ("b", 3, None), (None, 4, None)])
    streams.send(users=as_changes([("a", 600, 0, 2), ("b", 5, 0, 3)]), views=as_views([("a", 1001, -1)]))
    corrected = streams.drain(query(False))
    assert Counter(row["op"] for row in corrected if row["number"] >= 0) == Counter({"-": 2, "+": 2})
    view = counted([*emitted, *corrected])
    assert +view == Counter([("a", 1, 1), ("a", 2, 2), ("b", 3, 3), (None, 4, None)])
    at_once = query(True)
    assert counted(collected(at_once)) == +view
    assert is_changelog(at_once)
    with pytest.raises(op.BadOperator, match="is of a changelog"):
        query(False).transform(op.Tumbling("1 hour"))


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


class Frame:
    """The part of a DataFrame that the constructor of a join reads."""

    schema, isStreaming, select = None, False, None


OTHER: Any = Frame()


Case = tuple[DataFrame, DataFrame, dict[str, Any], str]
CORRECTED = {"corrections": "retract", "keep": "1 hour"}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"as_of": "yesterday"}, "as_of"),
        ({"wait": "0 seconds"}, "wait"),
        ({"wait": "-1 second"}, "wait"),
        ({"keep": "a while"}, "keep"),
        ({"keep": "1 hour", "as_of": "latest"}, "keep"),
        ({"corrections": "update", "keep": "1 hour"}, "corrections"),
        ({"corrections": "retract"}, "corrections"),
        ({"corrections": "retract", "as_of": "latest"}, "corrections"),
        ({"unmatched": "right"}, "unmatched"),
        ({"columns": ["a", "a"]}, "columns"),
        ({"on": []}, "on"),
        ({"suffix": ""}, "suffix"),
        ({"table": None}, "table"),
    ],
)
def test_an_invalid_enrichment_is_rejected_by_the_constructor(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        op.Enrich(**{"table": OTHER, "on": "user", **arguments})
    assert rejected.value.field == field
    assert rejected.value.hint


def test_an_enrichment_that_does_not_fit_the_rows_is_rejected_when_it_is_applied(spark: SparkSession) -> None:
    rows = bounded(spark, [("ann", 1, 1)])
    timed: dict[str, Any] = {"time": "at", "table_time": "at", "on": "user"}
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    cases: list[Case] = [
        (rows, rows, {"on": {"user": "usr"}}, "on"),
        (rows, rows.withColumn("user", F.lit(1)), {}, "on"),
        (rows, rows, {"columns": "msec"}, "columns"),
        (rows, rows, {"time": "then"}, "time"),
        (rows, rows, {"table_time": None}, "table_time"),
        (rows, rows, {"deleted": "missing = 1"}, "deleted"),
        (rows, rows, {"deleted": "ms"}, "deleted"),
        (rows, stream, {}, "table"),
        (stream, stream, {}, "time"),
        (stream, stream, {"as_of": "latest", "wait": "1 hour"}, "time"),
        (rows.withColumn("ms_table", F.lit(1)), rows, {}, "suffix"),
        (rows.withColumn("op", F.lit("+")), rows, CORRECTED, "corrections"),
        (rows, rows.withColumn("op", F.lit(1)), CORRECTED, "corrections"),
    ]
    for here, there, arguments, field in cases:
        with pytest.raises(op.BadOperator) as rejected:
            op.Enrich(there, **{**timed, **arguments})(here)
        assert rejected.value.field == field
        assert rejected.value.hint
