"""A stream enriched from a bounded table, beside an oracle."""

from __future__ import annotations

import json
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.joins.oracles import as_of
from tests.operators.joins.test_enrich import some_changes, some_views
from tests.operators.streams import EventRow, Stream, at, bounded

VIEWS, CHANGES = some_views(40), some_changes(60)
ROWS: list[EventRow] = [(key, time, number) for key, time, number in VIEWS]
TIMELESS: list[EventRow] = [("a", None, 1000), (None, None, 1001)]
END = 10**9
pytestmark = pytest.mark.timeout(600)  # a stream starts within seconds, and minutes on a busy machine


def versions(spark: SparkSession) -> DataFrame:
    """Deletes have no points. Every version comes after one of the same time that it replaces."""
    replaced = [(key, since, -5, 0) for key, since, _, _ in CHANGES]
    created = [(key, since, points, 1) for key, since, _, points in CHANGES]
    table = spark.createDataFrame(
        [(key, at(since), points, offset) for key, since, points, offset in [*created, *replaced]],
        "id string, since string, points int, _offset bigint",
    )
    return table.withColumn("since", F.to_timestamp("since"))


def every_enrichment(table: DataFrame, rows: DataFrame) -> DataFrame:
    """The results of all kinds of enrichment, each with the name of its kind."""
    results = []
    for moment in ("event_time", "latest"):
        for unmatched in ("left", None):
            settings: dict[str, Any] = {"as_of": moment, "unmatched": unmatched}
            enrich = op.Enrich(
                table,
                on={"user": "id"},
                time="at",
                table_time="since",
                deleted="points is null",
                columns=["points"],
                **settings,
            )
            results.append(rows.transform(enrich).withColumn("kind", F.lit(f"{moment} {unmatched}")))
    return reduce(DataFrame.unionByName, results)


def found(rows: list[dict[str, Any]], kind: str) -> Counter[tuple[Any, ...]]:
    return Counter(
        (row["ms"], row["points"]) for row in rows if row["kind"] == kind and row["at"] is not None
    )


def test_a_stream_and_a_bounded_table_give_the_bounded_answer(spark: SparkSession, tmp_path: Path) -> None:
    table = versions(spark)
    stream = Stream(spark, tmp_path, lambda rows: every_enrichment(table, rows), watermark=None)
    # The older rows arrive last: no row is late for a bounded table.
    rows = [*TIMELESS, *sorted(ROWS, key=lambda row: -(row[1] or 0))]
    emitted = [*stream.send(rows[:20]), *stream.send(rows[20:])]
    for moment in ("event_time", "latest"):
        # The latest entry is the entry at the end of time.
        looked_up = [(key, END if moment == "latest" else time, number) for key, time, number in VIEWS]
        for unmatched in ("left", None):
            expected = as_of(looked_up, CHANGES, drops_unmatched=unmatched is None)
            assert found(emitted, f"{moment} {unmatched}") == Counter((row[2], row[3]) for row in expected)
    timeless = [row for row in emitted if row["at"] is None]
    assert Counter((row["kind"], row["ms"], row["points"] is None) for row in timeless) == Counter(
        [
            ("event_time left", 1000, True),
            ("event_time left", 1001, True),
            ("latest left", 1000, False),
            ("latest left", 1001, True),
            ("latest None", 1000, False),
        ]
    )


def test_a_table_without_times_is_read_again_after_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "users"
    folder.mkdir()

    def write(name: str, *users: tuple[str, str]) -> None:
        lines = [json.dumps({"user": user, "city": city}) for user, city in users]
        (folder / name).write_text("\n".join(lines))

    def enriched(rows: DataFrame) -> DataFrame:
        users = spark.read.schema("user string, city string").json(str(folder))
        return rows.transform(op.Enrich(users, on="user", as_of="latest"))

    write("1.json", ("ann", "Rome"))
    stream = Stream(spark, tmp_path, enriched)
    sent: list[EventRow] = [("ann", 10, 1), ("bob", 5, 2)]
    assert sorted((row["user"], row["city"]) for row in stream.send(sent)) == [("ann", "Rome"), ("bob", None)]
    write("2.json", ("bob", "Oslo"))
    assert sorted((row["user"], row["city"]) for row in stream.send(sent)) == [
        ("ann", "Rome"),
        ("bob", "Oslo"),
    ]
    assert bounded(spark, sent).transform(enriched).where("city = 'Oslo'").count() == 1


def test_settings_that_need_a_stream_are_rejected(spark: SparkSession) -> None:
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    users = spark.createDataFrame([("x", "Rome")], "user string, city string")
    cases: list[tuple[dict[str, Any], str]] = [
        ({"as_of": "latest", "wait": "1 hour"}, "wait"),
        ({"keep": "1 hour"}, "keep"),
        ({"keep": "1 hour", "corrections": "retract"}, "corrections"),
        ({"as_of": "event_time"}, "table_time"),
        ({"as_of": "latest", "on": {"ms": "user"}}, "on"),
    ]
    for settings, field in cases:
        with pytest.raises(op.BadOperator) as rejected:
            stream.transform(op.Enrich(users, **{"on": "user", "time": "at", **settings}))
        assert rejected.value.field == field
        assert rejected.value.hint
    with pytest.raises(op.BadOperator, match="table is a stream, but the rows are bounded"):
        users.transform(op.Enrich(stream, on="user", as_of="latest", table_time="at"))
