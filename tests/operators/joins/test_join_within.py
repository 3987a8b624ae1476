"""Interval joins beside an oracle: bounded rows, and streams from topics that restart."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.joins.sides import Unmatched
from headrace.operators.state.inspect import find_state
from headrace.pipeline import read_topic
from tests.operators import streams
from tests.operators.joins.oracles import SideRow, joined_within
from tests.operators.joins.topic_streams import TopicStreams, split
from tests.operators.streams import EPOCH_S, at, since_epoch

SCHEMA = "session string, at timestamp, number int"
DELAY_S = 60
pytestmark = pytest.mark.timeout(600)  # a stream starts within seconds, and minutes on a busy machine
END = ("end", 1_000_000.0, -1)
"""So much later than all others that the watermark passes them."""


def some_rows(seed: int, count: int) -> list[SideRow]:
    """A few keys, so that many rows match; some rows without a key, some without a time."""
    rows = random.Random(seed)
    keys = [*"abcdefgh", None]
    return [
        (rows.choice(keys), rows.choice([None, *[rows.randint(0, 3600) for _ in range(8)]]), number)
        for number in range(count)
    ]


LEFT, RIGHT = some_rows(1, 60), some_rows(2, 80)


def bounded(spark: SparkSession, rows: list[SideRow]) -> DataFrame:
    created = [
        (key, None if time is None else datetime.fromtimestamp(EPOCH_S + time, tz=UTC), number)
        for key, time, number in rows
    ]
    return spark.createDataFrame(created, SCHEMA)


def found(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (
            row["session"],
            None if row["at"] is None else since_epoch(row["at"]),
            row["number"],
            None if row["at_right"] is None else since_epoch(row["at_right"]),
            row["number_right"],
        )
        for row in rows
        if row["session"] != "end"
    )


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


@pytest.mark.parametrize(
    ("unmatched", "bounds"),
    [
        (None, {"within": "5 minutes"}),
        ("left", {"after": "10 minutes"}),
        ("right", {"before": "10 minutes"}),
        ("both", {"before": "1 minute", "after": "7 minutes"}),
    ],
)
def test_a_join_of_bounded_rows_matches_the_oracle(
    spark: SparkSession, unmatched: Unmatched, bounds: dict[str, str]
) -> None:
    join = op.JoinWithin(
        bounded(spark, RIGHT), on="session", unmatched=unmatched, time="at", other_time="at", **bounds
    )
    before_us, after_us = join.bounds_us
    expected = joined_within(LEFT, RIGHT, before=before_us / 1e6, after=after_us / 1e6, unmatched=unmatched)
    assert found(collected(join(bounded(spark, LEFT)))) == Counter(expected)


@st.composite
def side_rows(draw: st.DrawFn) -> list[SideRow]:
    """In an order in which no row is late, and most are out of order."""
    drawn = draw(
        st.lists(st.tuples(st.sampled_from([*"abc", None]), st.none() | st.integers(0, 900)), max_size=20)
    )
    rows = [(key, time, number) for number, (key, time) in enumerate(drawn)]
    delays = draw(st.lists(st.integers(0, DELAY_S - 1), min_size=len(rows), max_size=len(rows)))
    return [
        row for _, row in sorted(zip(delays, rows, strict=True), key=lambda each: each[0] + (each[1][1] or 0))
    ]


class JoinedTopics:
    """Two topics, and a query that joins them by `join`, given the other side."""

    def __init__(
        self, spark: SparkSession, bootstrap: str, folder: Path, join: Callable[[DataFrame], op.Operator]
    ) -> None:
        self._spark = spark
        self._streams = TopicStreams(spark, bootstrap, folder, ["left", "right"])
        self._join = join

    def run(self, left: Sequence[SideRow], right: Sequence[SideRow]) -> list[dict[str, Any]]:
        """The output for these rows, continued from the checkpoint."""
        self._streams.send(left=said_as_json(left), right=said_as_json(right))
        return self._streams.drain(self.query(is_bounded=False))

    def query(self, *, is_bounded: bool) -> DataFrame:
        left, right = (
            read_topic(self._spark, topic, schema=SCHEMA, bounded=is_bounded).withWatermark(
                "at", f"{DELAY_S} seconds"
            )
            for topic in self._streams.topics.values()
        )
        return left.transform(self._join(right))


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(
    max_examples=4,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # a run takes seconds, too long to shrink an example
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    side_rows(),
    side_rows(),
    st.sampled_from([(0, 300), (60, 120), (300, 0)]),
    st.sampled_from([None, "left", "right", "both"]),
    st.integers(1, 2),
)
def test_a_restarted_stream_joins_like_bounded_rows(
    spark: SparkSession,
    bootstrap: str,
    tmp_path_factory: pytest.TempPathFactory,
    left: list[SideRow],
    right: list[SideRow],
    bounds_s: tuple[int, int],
    unmatched: Unmatched,
    runs: int,
) -> None:
    before_s, after_s = bounds_s
    topics = JoinedTopics(
        spark,
        bootstrap,
        tmp_path_factory.mktemp("join"),
        lambda right: op.JoinWithin(
            right,
            on="session",
            before=f"{before_s} seconds",
            after=f"{after_s} seconds",
            unmatched=unmatched,
            time="at",
            other_time="at",
        ),
    )
    parts = zip_longest(split(left, runs), split(right, runs), fillvalue=())
    emitted = [row for part in parts for row in topics.run(*part)]
    emitted += topics.run([END], [("end", END[1] * 2, -1)])
    expected = joined_within(left, right, before=before_s, after=after_s, unmatched=unmatched)
    assert found(emitted) == Counter(expected)
    assert found(collected(topics.query(is_bounded=True))) == Counter(expected)


def test_an_unmatched_row_is_emitted_when_no_match_can_arrive(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topics = JoinedTopics(
        spark,
        bootstrap,
        tmp_path,
        lambda right: op.JoinWithin(
            right, on="session", within="5 minutes", unmatched="both", time="at", other_time="at"
        ),
    )
    emitted = topics.run([("a", 0, 1), ("c", 3600, 2)], [("b", 3600, 1)])
    assert found(emitted) == Counter([("a", 0, 1, None, None)])


def test_state_of_a_join_is_found_by_key(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics = JoinedTopics(
        spark,
        bootstrap,
        tmp_path,
        lambda right: op.JoinWithin(
            right, on="session", within="5 minutes", unmatched="left", time="at", other_time="at"
        ),
    )
    topics.run([("a", 0, 1), ("b", 0, 2)], [("a", 10, 3)])
    found = find_state(spark, tmp_path / "query", keys=["a"])
    assert (found.owner.split()[0], found.keys) == ("joinwithin", ("session",))
    rows = found.rows.select(["session", "side", "number", "other.number"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [("a", 0, 1, None), ("a", 1, None, 3)]


def said_as_json(rows: Sequence[SideRow]) -> list[dict[str, Any]]:
    return [
        {"session": key, "at": None if time is None else at(time), "number": number}
        for key, time, number in rows
    ]


def test_windows_over_a_join_of_streams_end(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    streams = TopicStreams(spark, bootstrap, tmp_path, ["searches", "clicks"])

    def query(is_bounded: bool) -> DataFrame:
        searches, clicks = (
            read_topic(
                spark,
                streams.topics[name],
                schema=SCHEMA,
                event_time="at",
                watermark="0 seconds",
                bounded=is_bounded,
            )
            for name in ("searches", "clicks")
        )
        joined = searches.transform(op.JoinWithin(clicks, on="session", after="10 minutes", unmatched="left"))
        return joined.transform(
            op.Tumbling("1 hour", aggregate={"n": "count(*)", "clicks": "count(number_right)"})
        )

    streams.send(
        searches=said_as_json([("a", 10, 1), ("b", 20, 2), ("c", 3000, 3)]),
        clicks=said_as_json([("a", 30, 1), ("a", 40, 2), ("b", 700, 3), ("c", 3599, 4)]),
    )
    streams.send(searches=said_as_json([END]), clicks=said_as_json([END]))
    emitted = streams.drain(query(False))
    assert [(row["n"], row["clicks"]) for row in emitted] == [(4, 3)]
    assert [(row["n"], row["clicks"]) for row in collected(query(True).orderBy("window_start"))] == [
        (4, 3),
        (1, 1),
    ]


def test_columns_with_the_same_name_get_a_suffix(spark: SparkSession) -> None:
    left = bounded(spark, [("a", 0, 1)]).withColumn("url", F.lit("/"))
    right = (
        bounded(spark, [("a", 0, 2)]).withColumnRenamed("session", "visit").withColumn("user", F.lit("ann"))
    )
    join = op.JoinWithin(
        right, on={"session": "visit"}, within="1 second", time="at", other_time="at", suffix="_click"
    )
    joined = join(left)
    assert joined.columns == ["session", "at", "number", "url", "visit", "at_click", "number_click", "user"]
    (row,) = joined.collect()
    assert row[2:] == (1, "/", "a", row["at"], 2, "ann")


def test_a_stream_may_be_joined_with_itself(spark: SparkSession) -> None:
    rows = bounded(spark, [("a", 0, 1), ("a", 5, 2), ("a", 60, 3)])
    pairs = op.JoinWithin(rows, on="session", after="10 seconds", time="at", other_time="at")(rows)
    assert sorted((row["number"], row["number_right"]) for row in pairs.collect()) == [
        (1, 1),
        (1, 2),
        (2, 2),
        (3, 3),
    ]


class Frame:
    """The part of a DataFrame that the constructor of a join reads."""

    schema, isStreaming, select = None, False, None


OTHER: Any = Frame()


Case = tuple[DataFrame, DataFrame, dict[str, Any], str]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "within"),
        ({"within": "0 seconds"}, "within"),
        ({"within": "-1 hour"}, "within"),
        ({"within": timedelta(seconds=-1)}, "within"),
        ({"within": "for ever"}, "within"),
        ({"within": "1 hour", "after": "1 hour"}, "within"),
        ({"before": "-1 hour"}, "before"),
        ({"after": "-1 hour", "before": "1 hour"}, "after"),
        ({"before": "0 seconds", "after": "0 seconds"}, "after"),
        ({"within": "1 hour", "on": ()}, "on"),
        ({"within": "1 hour", "on": ["a", "a"]}, "on"),
        ({"within": "1 hour", "on": {"a": ""}}, "on"),
        ({"within": "1 hour", "on": {"a": "c", "b": "c"}}, "on"),
        ({"within": "1 hour", "unmatched": "outer"}, "unmatched"),
        ({"within": "1 hour", "suffix": ""}, "suffix"),
        ({"within": "1 hour", "other": "clicks"}, "other"),
    ],
)
def test_an_invalid_interval_join_is_rejected_by_the_constructor(
    arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        op.JoinWithin(**{"other": OTHER, "on": "session", **arguments})
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_join_that_does_not_fit_the_rows_is_rejected_when_it_is_applied(spark: SparkSession) -> None:
    rows = streams.bounded(spark, [("ann", 1, 1)])
    nested = rows.withColumn("user", F.struct("user"))
    numbers = rows.withColumn("user", F.lit(1))
    timed: dict[str, Any] = {"time": "at", "other_time": "at", "within": "1 hour", "on": "user"}
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    watermarked = stream.withWatermark("at", "1 minute")
    cases: list[Case] = [
        (rows, rows, {"on": "usr"}, "on"),
        (rows, rows.drop("user"), {}, "on"),
        (rows, numbers, {}, "on"),
        (nested, nested, {}, "on"),
        (rows, rows, {"time": None}, "time"),
        (rows, rows, {"other_time": None}, "other_time"),
        (rows, rows, {"other_time": "ms"}, "other_time"),
        (rows, rows.withColumn("at", F.col("at").cast("timestamp_ntz")), {}, "other_time"),
        (rows.withColumn("ms_right", F.lit(1)), rows, {}, "suffix"),
        (rows, watermarked, {}, "other"),
        (watermarked, rows, {}, "other"),
        (stream, watermarked, {}, "time"),
        (watermarked, stream, {}, "other_time"),
    ]
    for here, there, arguments, field in cases:
        with pytest.raises(op.BadOperator) as rejected:
            op.JoinWithin(there, **{**timed, **arguments})(here)
        assert rejected.value.field == field
        assert rejected.value.hint
