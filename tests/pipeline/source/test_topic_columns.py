"""A topic read by columns has the same rows, bad records, metrics and watermarks as one that Spark parses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace import operators as op
from headrace.operators.state.spark import COLUMNS_SETTING
from headrace.pipeline import read_topic
from headrace.pipeline.source.topic_columns import odd_texts
from headrace.plan_names import metric_without_use
from tests.compatibility.topic_contents import write
from tests.pipeline.conftest import CreateTopic

SCHEMA = "user STRING NOT NULL, url STRING, at TIMESTAMP, ms INT, share DOUBLE, ok BOOLEAN"
FIRST_S = 1_767_225_600
RECORDED_MS = FIRST_S * 1_000

COUNT = {"n": "count(*)", "slowest": "max(ms)", "shares": "sum(share)"}

Transform = Callable[[DataFrame], DataFrame]


def joined_with_itself(rows: DataFrame) -> DataFrame:
    others = rows.select("user", rows["at"].alias("other_at"), rows["ms"].alias("other_ms"))
    return rows.select("user", "at", "url").transform(op.JoinWithin(others, on="user", within="1 second"))


def joined_with_windows(rows: DataFrame) -> DataFrame:
    counts = rows.transform(op.Tumbling("5 seconds", by="user", aggregate=COUNT, time="at"))
    return rows.select("user", "at").transform(
        op.JoinWithin(counts.select("user", "window_end", "n"), on="user", within="2 seconds")
    )


TRANSFORMS: dict[str, Transform] = {
    "corrected windows": lambda rows: rows.transform(
        op.Tumbling("10 seconds", by="user", aggregate=COUNT, late=op.Correct(within="20 seconds"))
    ),
    "early panes of filtered rows": lambda rows: (
        rows.where("url like 'https://%' and ms > 10")
        .withColumn("site", rows["url"])
        .transform(op.Hopping("20 seconds", every="10 seconds", by="site", trigger=op.Trigger(early=1)))
    ),
    "sessions": lambda rows: rows.select("at", "user", "ms").transform(
        op.Session(
            gap="5 seconds", by="user", aggregate={"n": "count(*)"}, late=op.Correct(within="1 second")
        )
    ),
    "columns of the record": lambda rows: rows.where("_offset % 2 = 0").transform(
        op.Tumbling("10 seconds", by=["_key", "_partition"], trigger=op.Trigger(early=1))
    ),
    "a filter by time": lambda rows: rows.where(
        "at > timestamp'2026-01-01T00:00:30Z' and user <> 'u1'"
    ).transform(op.Tumbling("10 seconds", by="user", trigger=op.Trigger(early=1))),
    "a join of the topic with itself": joined_with_itself,
    "a join with windows over the same topic": joined_with_windows,
    "the version at the time of a row": lambda rows: rows.select("user", "at", "ms").transform(
        op.Enrich(
            rows.where("at is not null").select("user", rows["at"].alias("since"), "url"),
            on="user",
            as_of="event_time",
            table_time="since",
        )
    ),
    "patterns": lambda rows: rows.transform(
        op.MatchRecognize(
            "PARTITION BY user ORDER BY at MEASURES FIRST(A.ms) AS first_ms, COUNT(B.ms) AS n "
            "PATTERN (A B+) WITHIN INTERVAL '20' SECOND DEFINE A AS ms < 50, B AS ms >= 50"
        )
    ),
}


STEPS_MORE = {
    "a join of the topic with itself": 3,
    "a join with windows over the same topic": 2,
    "the version at the time of a row": 3,
}
"""How many more steps in Python there are than without columns; one if not given."""


class Drained(NamedTuple):
    rows: list[str]
    metrics: dict[str, int]
    watermark: str
    python_steps: int


@pytest.fixture(autouse=True)
def _setting_is_restored(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(COLUMNS_SETTING)


def contents() -> list[bytes | None]:
    """Records of every kind, in the order of their times except for some."""
    choose = random.Random(4)

    def second(number: int) -> str:
        minutes, seconds = divmod(number - (25 if choose.random() < 0.05 else 0), 60)
        return f"2026-01-01T00:{minutes % 60:02}:{seconds:02}.{choose.randrange(1000):03}Z"

    def good(number: int) -> bytes:
        ms = choose.choice([choose.randrange(100), None])
        fields = {
            "user": f"u{choose.randrange(4)}",
            "url": f"{choose.choice(['https', 'http'])}://é.example/",
        }
        return json.dumps(
            {**fields, "at": second(number), "ms": ms, "share": choose.random(), "ok": True}
        ).encode()

    def odd(number: int) -> bytes | None:
        """Of good and bad records, those that are not read by columns."""
        at = second(number)
        return choose.choice(
            [
                b"{",
                b"",
                None,
                b'{"user": "a"} {"user": "b"}',
                f"{{'user': 'u1', 'at': '{at}', 'ms': 7}}".encode(),
                f'{{"user": 12, "at": "{at}"}}'.encode(),
                f'{{"user": "u2", "at": "{at}", "ms": "many"}}'.encode(),
                f'{{"user": "u2", "at": "{at}", "ms": 3, "ms": 5}}'.encode(),
                f'{{"user": "u3", "at": "{at}", "share": NaN, "more": {{"a": [1]}}}}'.encode(),
                f'{{"user": "\xff", "at": "{at}"}}'.encode("latin-1"),
                f'{{"url": "no user", "at": "{at}"}}'.encode(),
                b'{"user": "no time"}',
                b'{"user": "before", "at": "1969-01-01T00:00:00Z"}',
                b'{"user": "ahead", "at": "2126-01-01T00:00:00Z"}',
                b'{"user": "numbers", "at": 1767225600}',
            ]
        )

    return [odd(number) if choose.random() < 0.1 else good(number) for number in range(20, 320)]


def drained(
    spark: SparkSession, topic: str, transform: Transform, folder: Path, *, by_columns: bool
) -> Drained:
    spark.conf.set(COLUMNS_SETTING, str(by_columns).lower())
    given = read_topic(
        spark,
        topic,
        schema=SCHEMA,
        event_time="at",
        watermark="3 seconds",
        options={"maxOffsetsPerTrigger": "60"},
    )
    rows = transform(given)
    seen: list[str] = []

    def collect(batch: DataFrame, _: int) -> None:
        # The watermark of a pane is that of its batch, and so the same on both ways.
        seen.extend(
            json.dumps(row.asDict(recursive=True), default=str, sort_keys=True) for row in batch.collect()
        )

    query = (
        rows.writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    metrics: dict[str, int] = {}
    for progress in query.recentProgress:
        of_sources = {metric_without_use(name): row for name, row in (progress.observedMetrics or {}).items()}
        for name, of_metric in of_sources.items():
            for count, number in of_metric.asDict().items():
                if isinstance(number, int):
                    kind = f"{name.split(':')[0]} {count}"
                    metrics[kind] = metrics.get(kind, 0) + number
    watermark = max(progress.eventTime.get("watermark", "") for progress in query.recentProgress)
    plan = rows._jdf.queryExecution().analyzed().treeString()
    return Drained(sorted(seen), metrics, watermark, plan.count("MapInArrow"))


@pytest.mark.parametrize("work", TRANSFORMS)
def test_reading_by_columns_changes_nothing(
    spark: SparkSession, bootstrap: str, create_topic: CreateTopic, tmp_path: Path, work: str
) -> None:
    topic = create_topic(partitions=2)
    records = [
        {"value": value, "key": f"k{number % 3}".encode(), "timestamp": RECORDED_MS, "partition": number % 2}
        for number, value in enumerate(contents())
    ]
    write(bootstrap, topic, records)

    by_spark = drained(spark, topic, TRANSFORMS[work], tmp_path / "spark", by_columns=False)
    by_columns = drained(spark, topic, TRANSFORMS[work], tmp_path / "columns", by_columns=True)

    steps = by_spark.python_steps + STEPS_MORE.get(work, 1)
    assert by_columns.python_steps == steps, "the topic was not read by columns"
    assert by_spark.rows, "the operator emits nothing"
    assert by_columns.rows == by_spark.rows
    assert by_columns.metrics == by_spark.metrics
    assert by_spark.metrics["headrace.bad bad"] > 0
    assert by_columns.watermark == by_spark.watermark


def test_records_that_columns_cannot_read_are_parsed_by_spark(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    values = [f"{{'user': 'u{n % 3}', 'at': '2026-01-01T00:00:{n:02}Z'}}".encode() for n in range(50)]
    write(bootstrap, topic, [{"value": value, "timestamp": RECORDED_MS} for value in values])
    transform = TRANSFORMS["corrected windows"]

    by_spark = drained(spark, topic, transform, tmp_path / "spark", by_columns=False)
    by_columns = drained(spark, topic, transform, tmp_path / "columns", by_columns=True)

    assert by_columns.python_steps == by_spark.python_steps + 1
    assert by_spark.rows
    assert by_columns[:3] == by_spark[:3]


def test_an_option_that_changes_what_spark_reads_leaves_the_parsing_to_spark(
    spark: SparkSession, topic: str
) -> None:
    def is_read_by_columns() -> bool:
        rows = read_topic(spark, topic, schema=SCHEMA, event_time="at", watermark="3 seconds")
        rows = TRANSFORMS["corrected windows"](rows)
        return "_record" in rows._jdf.queryExecution().analyzed().treeString()

    assert is_read_by_columns()
    spark.conf.set(COLUMNS_SETTING, "false")
    assert not is_read_by_columns()
    spark.conf.unset(COLUMNS_SETTING)
    spark.conf.set("spark.sql.json.enablePartialResults", "false")
    try:
        assert not is_read_by_columns()
    finally:
        spark.conf.unset("spark.sql.json.enablePartialResults")


def test_bytes_that_are_no_text_are_found() -> None:
    values = pa.array([b"a", b"\xff", None, "é".encode()], pa.binary())
    assert odd_texts(values).tolist() == [False, True, False, False]
    assert not odd_texts(values.take([0, 2, 3])).any()
