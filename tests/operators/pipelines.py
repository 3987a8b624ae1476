"""Random chains of operators, and events for them: what a stream emits must be what the bounded rows give.

Every stage turns rows (user, n, at) into such rows, so that stages can follow each other in any order. The last stage
may be one whose rows change later.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from msgspec import Struct
from pyspark import TaskContext
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
OPENING: Batch = ([(LAST_USER, 0, 0)], [(LAST_USER, 0, 0)])
"""Sent twice, it moves the watermark to the start: earlier events are late from here on."""


def at(minutes: float) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minutes)


SUM = {"n": "sum(n)"}
PATTERN = "PATTERN (A B+) WITHIN INTERVAL '6' MINUTE DEFINE B AS n > PREV(n) OR COUNT(*) = 2"
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


def join_both(rows: DataFrame, table: DataFrame) -> DataFrame:
    """Unmatched rows of the other side have no event time, so no stage follows."""
    joined = rows.transform(
        op.JoinWithin(table, on="user", before="3 minutes", after="1 minute", unmatched="both")
    )
    return joined.select("user", "n", "at", "n_right", "at_right")


def join_window(rows: DataFrame, table: DataFrame) -> DataFrame:
    joined = rows.transform(op.JoinWindow(table, on="user", length="5 minutes", unmatched="both"))
    return joined.select("user", _sum("n", "n_right").alias("n"), F.col("window_end").alias("at"))


def compare(rows: DataFrame, table: DataFrame) -> DataFrame:
    results = rows.transform(op.Tumbling("5 minutes", by="user", aggregate=SUM))
    compared = results.transform(op.CompareWith("5 minutes", on="user", columns=["n"]))
    return compared.select("user", _sum("n", "n_before").alias("n"), F.col("window_end").alias("at"))


def search(rows: DataFrame, table: DataFrame, **more: Any) -> DataFrame:
    near = F.concat(F.lit(" OR n:["), F.col("n") - 1, F.lit(" TO "), F.col("n") + 1, F.lit("]"))
    # The last user's rows are not in the bounded chain: the query for them must find no others.
    query = F.concat(F.lit("user:"), "user", F.when(F.col("user") == LAST_USER, "").otherwise(near))
    queries = table.select(F.concat(F.lit("q"), "user").alias("id"), query.alias("query"), "at")
    hits = rows.transform(op.SearchQueries(queries, text="user", key="id", **more))
    return hits.select("user", (_sum("n") + F.length("id")).alias("n"), "at")


def match(rows: DataFrame, table: DataFrame) -> DataFrame:
    matches = rows.transform(
        op.MatchRecognize(f"""
        PARTITION BY user ORDER BY at MEASURES SUM(n) AS n, MATCH_ROWTIME() AS at
        AFTER MATCH SKIP TO NEXT ROW {PATTERN}""")
    )
    return matches.select("user", _sum("n").alias("n"), "at")


def match_rows(rows: DataFrame, table: DataFrame) -> DataFrame:
    matches = rows.transform(
        op.MatchRecognize(f"""
        PARTITION BY user ORDER BY at MEASURES COUNT(*) AS m
        ALL ROWS PER MATCH WITH UNMATCHED ROWS {PATTERN}""")
    )
    return matches.select("user", _sum("n", "m").alias("n"), "at")


def absence(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Absence(of=table, on="user", within="4 minutes"))


def newest(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Newest(2, by="user", order=["at", "n"])).select("user", "n", "op")


def corrected(rows: DataFrame, table: DataFrame, name: str = "tumbling", count: int = 2) -> DataFrame:
    early = op.Trigger(early=op.AfterCount(count))
    results = rows.transform(WINDOWS[name](trigger=early, late=op.Correct(within="20 minutes")))
    return results.select("user", "n", F.col("window_end").alias("at"), "op")


def enrich_corrected(rows: DataFrame, table: DataFrame) -> DataFrame:
    changes = table.withColumnRenamed("n", "m")
    correcting = op.Enrich(changes, on="user", columns=["m"], corrections="retract", keep="20 minutes")
    return rows.transform(correcting).select("user", "n", "m", "at", "op")


def group(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.GroupChanges(by="user", aggregate={"n": "sum(n)", "rows": "count(*)"}))


def table_join(rows: DataFrame, table: DataFrame) -> DataFrame:
    sums = table.transform(op.GroupChanges(by="user", aggregate={"m": "sum(n)"}))
    return group(rows, table).transform(op.JoinTables(sums, on="user", how="left"))


def approximate(rows: DataFrame, table: DataFrame) -> DataFrame:
    aggregates = {
        "n": "distinct(n)",
        "middle": "percentile(n, 0.5)",
        "sketch": "theta_sketch(n)",
        "hll": "hll_sketch(n)",
        "counts": "count_min_sketch(n)",
    }
    return rows.transform(op.Approximate(by="user", aggregate=aggregates))


def top(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.TopN(2, of="n", by="user"))


def top_window(rows: DataFrame, table: DataFrame) -> DataFrame:
    results = rows.transform(op.TopN(2, of="n", by="user", within=op.Tumbling("10 minutes")))
    return results.select("user", "n", F.col("window_end").alias("at"))


def sample(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Sample(2, by="user")).select("user", "n", "op")


def frequency(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Frequency(of=["user", "n"])).drop("count")


def seen(rows: DataFrame, table: DataFrame) -> DataFrame:
    return rows.transform(op.Seen(key=["user", "n", "at"], keys_max=100_000, error=1e-6))


def clusters(rows: DataFrame, table: DataFrame) -> DataFrame:
    """With more clusters than points, so that the model does not depend on the batches."""
    model = rows.transform(op.StreamingKMeans(k=500, features="n", by="user"))
    return model.select("user", F.col("centre")[0].alias("n"), "weight", "op")


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
    "join window": join_window,
    "compare": compare,
    "search": search,
    "search limited": lambda rows, table: search(rows, table, limit=2, per="10 minutes", shards=1),
    "match": match,
    "match rows": match_rows,
    "absence": absence,
    "heartbeat": lambda rows, table: rows.transform(op.Absence(on="user", within="4 minutes")),
    "top window": top_window,
    "frequency": frequency,
    "seen": seen,
}
LAST_STAGES: dict[str, Stage] = {
    "corrected": corrected,
    "corrected session": lambda rows, table: corrected(rows, table, "session", 1),
    "enrich corrected": enrich_corrected,
    "join both": join_both,
    "newest": newest,
    "group": group,
    "table join": table_join,
    "approximate": approximate,
    "top": top,
    "sample": sample,
    "clusters": clusters,
}
WITHOUT_TIME = (
    "newest",
    "group",
    "table join",
    "approximate",
    "top",
    "sample",
    "clusters",
    "frequency",
    "seen",
)
"""No row is late for them, and after each batch they have emitted their answer for the rows so far."""


class Pipeline(Struct, frozen=True):
    """A chain, the batches of its stream, after how many of them it restarts, and the partitions of its rows.

    Events before minute 0 are late for the stream.
    """

    stages: tuple[str, ...]
    batches: tuple[Batch, ...]
    restart_after: int
    partitions: int = 1

    def __call__(self, rows: DataFrame, table: DataFrame) -> DataFrame:
        return self._last(self._before_last(rows, table), table)

    def _before_last(self, rows: DataFrame, table: DataFrame) -> DataFrame:
        for name in self.stages[:-1]:
            rows = STAGES[name](rows, table)
        return rows

    @property
    def _last(self) -> Stage:
        return (STAGES | LAST_STAGES)[self.stages[-1]]

    def bounded(self, spark: SparkSession) -> Counter[Any]:
        is_late_dropped = not set(self.stages) <= set(WITHOUT_TIME)
        frames = []
        for number in (0, 1):
            rows = [
                (user, n, at(minutes))
                for batch in self.batches
                for user, n, minutes in batch[number]
                if minutes >= 0 or not is_late_dropped
            ]
            frame = spark.createDataFrame(rows, SCHEMA)
            frames.append(frame.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True})))
        return net_rows(self(*frames))

    def streamed(self, spark: SparkSession, folder: Path) -> Counter[Any]:
        """What the stream emitted, less what it retracted. Checks the same after each batch."""
        feeds = [Feed(spark, SCHEMA, folder / name) for name in ("rows", "table")]
        closing: Batch = ([(LAST_USER, 0, END_MINUTES)], [(LAST_USER, 0, END_MINUTES)])
        has_late = any(event[2] < 0 for batch in self.batches for event in batch[0])
        sent = [*([OPENING] * 2 if has_late else ()), *self.batches, closing]
        is_checked = self.stages[-1] in WITHOUT_TIME
        found: Counter[Any] = Counter()

        def collect(batch: DataFrame, number: int) -> None:
            found.update(net_rows(batch))
            assert min(found.values(), default=0) >= 0, "a row was retracted that was not emitted"
            if is_checked:
                so_far = [read_tap(spark, folder / name, number) for name in ("to-last", "to-last-table")]
                assert _compared(found) == _compared(net_rows(self._last(*so_far))), f"after batch {number}"

        for part in (sent[: self.restart_after], sent[self.restart_after :]):
            for batch in part:
                for feed, events in zip(feeds, batch, strict=True):
                    feed.send(*({"user": user, "n": n, "at": at(minutes)} for user, n, minutes in events))
            rows, table = (self._partitioned(feed.rows) for feed in feeds)
            if is_checked:
                before = tap(self._before_last(rows, table), folder / "to-last")
                results = self._last(before, tap(table, folder / "to-last-table"))
            else:
                results = self(rows, table)
            query = (
                results.writeStream.foreachBatch(collect)
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
        return _compared(found)

    def _partitioned(self, rows: DataFrame) -> DataFrame:
        timed = rows.withWatermark("at", f"{DELAY_MINUTES} minutes")
        return timed.repartition(self.partitions) if self.partitions > 1 else timed


def tap(rows: DataFrame, folder: Path) -> DataFrame:
    """The rows, which are also written to a folder, one file for each task of each batch."""
    folder.mkdir(exist_ok=True)

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.getLocalProperty("streaming.sql.batchId")
        for each in batches:
            pq.write_table(pa.table(each), folder / f"{number}-{uuid.uuid4()}.parquet")
            yield each

    return rows.mapInArrow(written, rows.schema)


def read_tap(spark: SparkSession, folder: Path, batch: int) -> DataFrame:
    """The rows up to a batch."""
    paths = [str(path) for path in folder.iterdir() if int(path.name.partition("-")[0]) <= batch]
    return spark.read.schema(SCHEMA).parquet(*paths) if paths else spark.createDataFrame([], SCHEMA)


def _compared(found: Counter[Any]) -> Counter[Any]:
    return Counter({row: count for row, count in found.items() if count and row[0][1] != LAST_USER})


def net_rows(rows: DataFrame) -> Counter[Any]:
    """The rows, with a negative count for those that are retracted."""
    found: Counter[Any] = Counter()
    for row in rows.collect():
        values = row.asDict()
        sign = -1 if values.pop("op", "+") == "-" else 1
        found[tuple(sorted(values.items(), key=lambda each: each[0] != "user"))] += sign
    return found


_late_events = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9), st.just(-5_000.0)), max_size=3
)
_events = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.none() | st.integers(0, 9), st.integers(0, 60).map(lambda half: half / 2)
    ),
    min_size=1,
    max_size=25,
)


@st.composite
def batches(draw: st.DrawFn) -> tuple[Batch, ...]:
    """Events in disorder, some late ones, and the time of the stream in jumps."""
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
    for events, _ in created:
        events.extend(draw(_late_events))
    return tuple(created)


@st.composite
def pipelines(draw: st.DrawFn, length: int = 3) -> Pipeline:
    stages = draw(st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=length))
    if draw(st.booleans()):
        stages = [*stages[: length - 1], draw(st.sampled_from(sorted(LAST_STAGES)))]
    events = draw(batches())
    return Pipeline(tuple(stages), events, draw(st.integers(0, len(events))), draw(st.integers(1, 3)))


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
