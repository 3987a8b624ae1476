"""Window joins beside an oracle: bounded rows, and streams from topics that restart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.joins.sides import Unmatched
from headrace.pipeline import read_topic
from headrace.plan_names import RECORD_COLUMNS
from tests.operators import streams
from tests.operators.joins.oracles import SideRow, joined_in_windows
from tests.operators.joins.test_join_within import OTHER, SCHEMA, Case, said_as_json, some_rows
from tests.operators.joins.topic_streams import TopicStreams, split
from tests.operators.streams import since_epoch

pytestmark = pytest.mark.timeout(600)  # a stream starts within seconds, and minutes on a busy machine

LENGTH_S, OFFSET_S, DELAY_S = 600, 120, 60
UNMATCHED: list[Unmatched] = [None, "left", "right", "both"]
END: SideRow = ("end", 1_000_000, -1)


def in_order(rows: list[SideRow]) -> list[SideRow]:
    return sorted(rows, key=lambda row: row[1] or 0)


LEFT, RIGHT = in_order(some_rows(1, 40)), in_order(some_rows(2, 50))


class Topics(TopicStreams):
    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        super().__init__(spark, bootstrap, folder, ["left", "right"])

    def side(self, name: str, *, is_bounded: bool) -> DataFrame:
        # Rows without a time must reach the join; with event_time=, they would be dead letters.
        rows = read_topic(self.spark, self.topics[name], schema=SCHEMA, bounded=is_bounded)
        return rows.withWatermark("at", f"{DELAY_S} seconds").drop(*RECORD_COLUMNS)

    def joined(self, unmatched: Unmatched, *, is_bounded: bool) -> DataFrame:
        left, right = (self.side(name, is_bounded=is_bounded) for name in ("left", "right"))
        join = op.JoinWindow(
            right,
            on="session",
            length=f"{LENGTH_S} seconds",
            offset=f"{OFFSET_S} seconds",
            unmatched=unmatched,
            time="at",
            other_time="at",
        )
        return left.transform(join)

    def every_join(self, kinds: Sequence[Unmatched], *, is_bounded: bool) -> DataFrame:
        """The results of these kinds of join, each with the name of its kind."""
        results = (
            self.joined(kind, is_bounded=is_bounded).withColumn("kind", F.lit(str(kind))) for kind in kinds
        )
        return reduce(DataFrame.union, results)

    def end(self) -> None:
        """A later row of both, so that the watermark passes all others."""
        self.send(left=said_as_json([END]), right=said_as_json([END]))


def seconds(row: dict[str, Any], name: str) -> float | None:
    return None if row[name] is None else since_epoch(row[name])


def found(rows: list[dict[str, Any]], unmatched: Unmatched) -> Counter[tuple[Any, ...]]:
    return Counter(
        (
            row["session"],
            seconds(row, "at"),
            row["number"],
            seconds(row, "at_right"),
            row["number_right"],
            seconds(row, "window_start"),
        )
        for row in rows
        if row["session"] != "end" and row["kind"] == str(unmatched)
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_restarted_stream_joins_windows_like_bounded_rows(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    topics = Topics(spark, bootstrap, tmp_path)
    streamed: list[Unmatched] = ["left", "both"]
    (left, later_left), (right, later_right) = split(LEFT, 2), split(RIGHT, 2)
    topics.send(left=said_as_json(left), right=said_as_json(right))
    emitted = topics.drain(topics.every_join(streamed, is_bounded=False))
    is_unmatched = [row["number_right"] is None and row["window_end"] is not None for row in emitted]
    assert 0 < sum(is_unmatched) < len(emitted), "windows end while the stream runs"
    topics.send(left=said_as_json(later_left), right=said_as_json(later_right))
    topics.end()
    emitted += topics.drain(topics.every_join(streamed, is_bounded=False))
    at_once = [row.asDict() for row in topics.every_join(UNMATCHED, is_bounded=True).collect()]
    for unmatched in UNMATCHED:
        expected = Counter(
            joined_in_windows(LEFT, RIGHT, length=LENGTH_S, offset=OFFSET_S, unmatched=unmatched)
        )
        assert found(at_once, unmatched) == expected
        if unmatched in streamed:
            assert found(emitted, unmatched) == expected
    for row in emitted:
        if row["window_start"] is not None:
            assert (row["window_end"] - row["window_start"]).total_seconds() == LENGTH_S


def test_windows_over_a_window_join_end(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    topics = Topics(spark, bootstrap, tmp_path)

    def query(*, is_bounded: bool) -> DataFrame:
        joined = topics.joined("left", is_bounded=is_bounded)
        # Shorter than the window of the join: a row is not late for it when it is emitted unmatched.
        return joined.transform(
            op.Tumbling("1 minute", aggregate={"n": "count(*)", "clicks": "count(number_right)"})
        )

    topics.send(
        left=said_as_json([("a", 130, 1), ("b", 140, 2), ("c", 800, 3), ("d", 3000, 4)]),
        right=said_as_json([("a", 700, 1), ("a", 710, 2), ("b", 730, 3), ("d", 3000, 4)]),
    )
    emitted = topics.drain(query(is_bounded=False))
    topics.end()
    emitted += topics.drain(query(is_bounded=False))
    expected = [(660, 3, 2), (1260, 1, 0), (3060, 1, 1)]
    assert [(since_epoch(row["window_start"]), row["n"], row["clicks"]) for row in emitted] == expected
    at_once = query(is_bounded=True).orderBy("window_start").collect()
    assert [(since_epoch(row["window_start"]), row["n"], row["clicks"]) for row in at_once][:3] == expected


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"length": "0 seconds"}, "length"),
        ({"length": "-1 hour"}, "length"),
        ({"offset": "-1 hour"}, "offset"),
        ({"on": ()}, "on"),
        ({"unmatched": "outer"}, "unmatched"),
        ({"suffix": ""}, "suffix"),
        ({"other": "clicks"}, "other"),
    ],
)
def test_an_invalid_window_join_is_rejected_by_the_constructor(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        op.JoinWindow(**{"other": OTHER, "on": "session", "length": "1 hour", **arguments})
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_window_join_that_does_not_fit_the_rows_is_rejected_when_it_is_applied(spark: SparkSession) -> None:
    rows = streams.bounded(spark, [("ann", 1, 1)])
    timed: dict[str, Any] = {"time": "at", "other_time": "at", "length": "1 hour", "on": "user"}
    stream = (
        spark.readStream.format("rate").load().selectExpr("'x' as user", "timestamp as at", "value as ms")
    )
    watermarked = stream.withWatermark("at", "1 minute")
    cases: list[Case] = [
        (rows, rows, {"on": "usr"}, "on"),
        (rows, rows, {"time": None}, "time"),
        (rows, rows, {"other_time": "ms"}, "other_time"),
        (rows.withColumn("ms_right", F.lit(1)), rows, {}, "suffix"),
        (rows, rows.withColumn("window_end", F.lit(1)), {}, "other"),
        (rows, watermarked, {}, "other"),
        (stream, watermarked, {}, "time"),
        (watermarked, stream, {}, "other_time"),
    ]
    for here, there, arguments, field in cases:
        with pytest.raises(op.BadOperator) as rejected:
            op.JoinWindow(there, **{**timed, **arguments})(here)
        assert rejected.value.field == field
        assert rejected.value.hint
