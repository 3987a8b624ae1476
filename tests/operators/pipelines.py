"""Random chains of operators, and events for them: what a stream emits must be what the bounded rows give.

Every stage turns rows (user, n, at) into such rows, so that stages can follow each other in any order. The last stage
may be one whose rows change later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.operator import Operator
from headrace.plan_names import EVENT_TIME
from headrace.testing import Feed

Event = tuple[str, int | None, float]
"""(user, n, minute)"""
Batch = tuple[list[Event], list[Event]]
"""The new events, and the new changes of the table."""
Stage = Callable[[DataFrame, DataFrame], DataFrame]
"""From rows and the table to rows."""

SCHEMA = "user STRING, n BIGINT, at TIMESTAMP"
END_MINUTES = 10_000.0
"""Of the last event, which ends all windows; its own rows are not compared."""
LAST_USER = "last"
DELAY_MINUTES = 5


def at(minutes: float) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)


SUM = {"n": "sum(n)"}
WINDOWS: dict[str, Callable[..., Operator]] = {
    "tumbling": lambda **more: op.Tumbling("10 minutes", by="user", aggregate=SUM, **more),
    "hopping": lambda **more: op.Hopping("10 minutes", every="4 minutes", by="user", aggregate=SUM, **more),
    "sampling": lambda **more: op.Sampling("4 minutes", every="7 minutes", by="user", aggregate=SUM, **more),
    "session": lambda **more: op.Session(gap="3 minutes", by="user", aggregate=SUM, **more),
    "sliding": lambda **more: op.Sliding("6 minutes", by="user", aggregate=SUM, **more),
    "counting": lambda **more: op.Counting(2, by="user", aggregate=SUM, **more),
    "days": lambda **more: op.Tumbling("1 day", zone="Asia/Tokyo", by="user", aggregate=SUM, **more),
}
CORE = ("tumbling", "hopping", "session")
"""The windows that run natively on Spark, unless they have a trigger."""


def window(name: str, **more: Any) -> Stage:
    def applied(rows: DataFrame, table: DataFrame) -> DataFrame:
        results = rows.transform(WINDOWS[name](**more))
        return results.select("user", "n", F.col("window_end").alias("at"))

    return applied


def enrich(rows: DataFrame, table: DataFrame, **more: Any) -> DataFrame:
    enriched = rows.transform(op.Enrich(table.withColumnRenamed("n", "m"), on="user", columns=["m"], **more))
    return enriched.select("user", _sum("n", "m").alias("n"), "at")


def join(rows: DataFrame, table: DataFrame, **more: Any) -> DataFrame:
    joined = rows.transform(op.JoinWithin(table, on="user", within="4 minutes", **more))
    return joined.select("user", _sum("n", "n_right").alias("n"), "at")


def compare(rows: DataFrame, table: DataFrame) -> DataFrame:
    results = rows.transform(op.Tumbling("5 minutes", by="user", aggregate=SUM))
    compared = results.transform(op.CompareWith("5 minutes", on="user", columns=["n"]))
    return compared.select("user", _sum("n", "n_before").alias("n"), F.col("window_end").alias("at"))


def newest(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Newest(2, by="user", order=["at", "n"])).select("user", "n", "op")


def corrected(rows: DataFrame, table: DataFrame) -> DataFrame:
    early = op.Trigger(early=op.AfterCount(2))
    results = rows.transform(WINDOWS["tumbling"](trigger=early, late=op.Correct(within="20 minutes")))
    return results.select("user", "n", F.col("window_end").alias("at"), "op")


def group(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.GroupChanges(by="user", aggregate={"n": "sum(n)", "rows": "count(*)"}))


def table_join(rows: DataFrame, table: DataFrame) -> DataFrame:
    sums = table.transform(op.GroupChanges(by="user", aggregate={"m": "sum(n)"}))
    return group(rows, table).transform(op.JoinTables(sums, on="user", how="left"))


def _sum(*names: str) -> Any:
    return sum((F.coalesce(F.col(name), F.lit(0)) for name in names), F.lit(0)).cast("bigint")


STAGES: dict[str, Stage] = {
    **{name: window(name) for name in WINDOWS},
    **{f"core {name}": window(name, trigger=op.Trigger()) for name in CORE},
    "enrich": enrich,
    "enrich waiting": lambda rows, table: enrich(rows, table, wait="3 minutes"),
    "enrich keeping": lambda rows, table: enrich(rows, table, keep="2 minutes"),
    "join": join,
    "join left": lambda rows, table: join(rows, table, unmatched="left"),
    "compare": compare,
}
LAST_STAGES: dict[str, Stage] = {
    "corrected": corrected,
    "newest": newest,
    "group": group,
    "table join": table_join,
}


class Pipeline(Struct, frozen=True):
    """A chain, the batches of its stream, and after how many of them it restarts."""

    stages: tuple[str, ...]
    batches: tuple[Batch, ...]
    restart_after: int

    def __call__(self, rows: DataFrame, table: DataFrame) -> DataFrame:
        for name in self.stages:
            rows = (STAGES | LAST_STAGES)[name](rows, table)
        return rows

    def bounded(self, spark: SparkSession) -> Counter[Any]:
        frames = []
        for number in (0, 1):
            rows = [(user, n, at(minutes)) for batch in self.batches for user, n, minutes in batch[number]]
            frame = spark.createDataFrame(rows, SCHEMA)
            frames.append(frame.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True})))
        return net_rows(self(*frames))

    def streamed(self, spark: SparkSession, folder: Path) -> Counter[Any]:
        """What the stream emitted, less what it retracted."""
        feeds = [Feed(spark, SCHEMA, folder / name) for name in ("rows", "table")]
        ends: list[Batch] = [*self.batches, ([(LAST_USER, 0, END_MINUTES)], [(LAST_USER, 0, END_MINUTES)])]
        found: Counter[Any] = Counter()

        def collect(batch: DataFrame, number: int) -> None:
            found.update(net_rows(batch))
            assert min(found.values(), default=0) >= 0, "a row was retracted that was not emitted"

        for part in (ends[: self.restart_after], ends[self.restart_after :]):
            for batch in part:
                for feed, events in zip(feeds, batch, strict=True):
                    feed.send(*({"user": user, "n": n, "at": at(minutes)} for user, n, minutes in events))
            frames = [feed.rows.withWatermark("at", f"{DELAY_MINUTES} minutes") for feed in feeds]
            query = (
                self(*frames)
                .writeStream.foreachBatch(collect)
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        return Counter({row: count for row, count in found.items() if count and row[0][1] != LAST_USER})


def net_rows(rows: DataFrame) -> Counter[Any]:
    """The rows, with a negative count for those that are retracted."""
    found: Counter[Any] = Counter()
    for row in rows.collect():
        values = row.asDict()
        sign = -1 if values.pop("op", "+") == "-" else 1
        found[tuple(sorted(values.items(), key=lambda each: each[0] != "user"))] += sign
    return found


_events = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.none() | st.integers(0, 9), st.integers(0, 60).map(lambda half: half / 2)
    ),
    min_size=1,
    max_size=25,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, ...]:
    """Events in disorder, none of them late, and the time of the stream in jumps."""
    count = draw(st.integers(1, 4))
    created: list[Batch] = [([], []) for _ in range(count)]
    for side in (0, 1):
        delays = st.integers(0, (DELAY_MINUTES - 1) * 2).map(lambda half: half / 2)
        arriving = sorted(
            ((each[2] + draw(delays), each) for each in draw(_events)), key=lambda each: each[0]
        )
        cuts = sorted(draw(st.lists(st.integers(0, len(arriving)), min_size=count - 1, max_size=count - 1)))
        for number, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(arriving)], strict=True)):
            created[number][side].extend(each for _, each in arriving[start:end])
    return tuple(created)


@st.composite
def pipelines(draw: st.DrawFn, length: int = 3) -> Pipeline:
    stages = draw(st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=length))
    if draw(st.booleans()):
        stages = [*stages[: length - 1], draw(st.sampled_from(sorted(LAST_STAGES)))]
    events = draw(batches())
    return Pipeline(tuple(stages), events, draw(st.integers(0, len(events))))


def rejection(pipeline: Pipeline, spark: SparkSession, folder: Path) -> op.BadOperator | None:
    """Why the chain is rejected when it is made, if it is."""
    frames = [
        Feed(spark, SCHEMA, folder / "nothing").rows.withWatermark("at", f"{DELAY_MINUTES} minutes")
        for _ in (0, 1)
    ]
    try:
        pipeline(*frames)
    except op.BadOperator as error:
        return error
    return None
