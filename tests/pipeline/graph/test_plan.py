"""What a job does, read from Spark's plan. No query runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.errors import HeadraceError
from headrace.pipeline import Pattern, read_topic
from headrace.pipeline.errors import BadJob
from headrace.pipeline.folders.local import LocalFolder
from headrace.pipeline.graph.plan import (
    Plan,
    Step,
    StepKind,
    check_fits,
    read,
    realtime_obstacles,
    saved_steps,
)
from headrace.plan_names import RECORD_COLUMNS

SCHEMA = "user STRING, url STRING, at TIMESTAMP"

READ = Step(kind=StepKind.SOURCE, operator="read", detail="topic clicks")
COUNT = Step(kind=StepKind.STATEFUL, operator="aggregate", detail="Aggregate [url], [url, count(1) AS count]")
FILTER = Step(kind=StepKind.STATELESS, operator="Filter", detail="Filter (n > 1)")


@pytest.fixture
def clicks(spark: SparkSession) -> DataFrame:
    return read_topic(spark, "clicks", schema=SCHEMA, event_time="at", watermark="10 minutes")


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (READ, "read topic clicks"),
        (COUNT, "aggregate by url: url, count(1) AS count"),
        (FILTER, "filter (n > 1)"),
        (Step(kind=StepKind.STATELESS, operator="Project", detail="Project [user, n]"), "select user, n"),
        (
            Step(kind=StepKind.STATEFUL, operator="aggregate", detail="Aggregate [count(1) AS count]"),
            "aggregate by nothing: count(1) AS count",
        ),
        (
            Step(
                kind=StepKind.STATELESS, operator="EventTimeWatermark", detail="EventTimeWatermark at, 1 hour"
            ),
            "watermark on at, 1 hour",
        ),
        (
            Step(kind=StepKind.STATEFUL, operator="tumbling", detail="Tumbling('1 minute')"),
            "Tumbling('1 minute')",
        ),
        (Step(kind=StepKind.STATELESS, operator="Sort", detail="Sort [n ASC]"), "Sort [n ASC]"),
        (Step(kind=StepKind.STATELESS, operator="Project", detail="Project [__headrace_bad]"), None),
        (Step(kind=StepKind.STATELESS, operator="Project", detail="Project [bucket, payload]"), None),
    ],
)
def test_step_in_words(step: Step, words: str | None) -> None:
    assert step.in_words() == words


def test_same_steps_fit_without_a_note() -> None:
    assert check_fits("j", [READ, COUNT, FILTER], [READ, COUNT, FILTER]) == ()


@pytest.mark.parametrize(
    ("after", "difference"),
    [
        ([COUNT, FILTER], "A source step is missing: `read: topic clicks`"),
        ([READ, READ, COUNT, FILTER], "A source step is new: `read: topic clicks`"),
        ([READ, FILTER], r"A stateful step is missing: `aggregate: Aggregate \[url\]"),
        (
            [READ, Step(kind=StepKind.STATEFUL, operator="limit", detail=""), FILTER],
            r"A stateful step was `aggregate: .*` and is now `limit`",
        ),
    ],
)
def test_other_sources_or_state_than_those_of_the_checkpoint_are_rejected(
    after: list[Step], difference: str
) -> None:
    with pytest.raises(BadJob, match=f"another plan. {difference}") as rejected:
        check_fits("j", [READ, COUNT, FILTER], after)
    assert "headrace job reset j" in rejected.value.hint


def test_other_stateless_steps_are_noted() -> None:
    (note,) = check_fits("j", [READ, COUNT, FILTER], [READ, COUNT])
    assert "applies from the next batch on. A stateless step is missing: `Filter: Filter (n > 1)`" in note


def test_steps_are_read_back_from_the_file(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert saved_steps(folder, "plan.json") is None
    steps = (READ, COUNT, FILTER)
    Plan(steps=steps, sources=(), is_aggregated=True, is_watermarked=False).save(folder, "plan.json")
    assert saved_steps(folder, "plan.json") == steps


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps": [{"kind": "other"}]}'])
def test_damaged_file_is_rejected_with_a_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(HeadraceError, match="not the plan of a job") as rejected:
        saved_steps(LocalFolder(tmp_path), "plan.json")
    assert rejected.value.hint.startswith("remove it")


def test_plan_names_what_the_job_reads(spark: SparkSession, clicks: DataFrame) -> None:
    of_spark = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    topics = of_spark.option("subscribe", "b,a").load()
    assert read(clicks.union(clicks)).reads == ("topic clicks",)
    assert read(read_topic(spark, Pattern("orders"), schema=SCHEMA)).reads[0].startswith("topics ")
    assert read(topics).reads == ("topic a", "topic b")
    assert read(spark.readStream.format("rate").load()).reads == ("rate",)


def test_only_a_group_by_event_time_is_completed_by_the_watermark(clicks: DataFrame) -> None:
    by_url = read(clicks.groupBy("url").count())
    by_hour = read(clicks.groupBy(F.window("at", "1 hour"), "url").count())
    selected = read(clicks.select("url"))
    assert [(plan.is_aggregated, plan.is_watermarked) for plan in (by_url, by_hour)] == [
        (True, False),
        (True, True),
    ]
    assert (selected.is_aggregated, selected.is_stateful, by_url.is_stateful) == (False, False, True)


def test_steps_do_not_depend_on_the_run_that_reads_them(clicks: DataFrame, spark: SparkSession) -> None:
    again = read_topic(spark, "clicks", schema=SCHEMA, event_time="at", watermark="20 minutes")
    steps = [
        [step for step in read(rows.groupBy("url").count()).steps if step.kind is not StepKind.STATELESS]
        for rows in (clicks, again)
    ]
    assert steps[0] == steps[1]


VIEWS = "user STRING, seen TIMESTAMP, page STRING"


def other_parameters(spark: SparkSession) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Pairs of plans with another state."""

    def clicks(schema: str = SCHEMA, watermark: str = "10 minutes") -> DataFrame:
        return read_topic(spark, "clicks", schema=schema, event_time="at", watermark=watermark)

    def views(schema: str = VIEWS) -> DataFrame:
        rows = read_topic(spark, "views", schema=schema, event_time="seen", watermark="10 minutes")
        return rows.drop(*RECORD_COLUMNS)

    windows: list[tuple[op.Operator, op.Operator]] = [
        (op.Tumbling("1 minute"), op.Tumbling("2 minutes")),
        (op.Tumbling("1 minute"), op.Tumbling("1 minute", offset="10 seconds")),
        (op.Hopping("4 minutes", every="1 minute"), op.Hopping("4 minutes", every="2 minutes")),
        (op.Hopping("4 minutes", every="1 minute"), op.Hopping("3 minutes", every="1 minute")),
        (op.Sampling("1 minute", every="1 hour"), op.Sampling("2 minutes", every="1 hour")),
        (op.Session(gap="1 minute"), op.Session(gap="2 minutes")),
        (
            op.Session(gap=op.PerRow("INTERVAL 1 MINUTE")),
            op.Session(gap=op.PerRow("INTERVAL 2 MINUTES")),
        ),
        (op.Tumbling("1 day", zone="Europe/Berlin"), op.Tumbling("1 day", zone="Europe/London")),
        (op.Tumbling("1 day", zone="Europe/Berlin"), op.Tumbling("2 days", zone="Europe/Berlin")),
        (
            op.JoinWithin(views(), on="user", within="1 hour"),
            op.JoinWithin(views(), on="user", within="2 hours"),
        ),
        (
            op.JoinWithin(views(), on="user", within="1 hour"),
            op.JoinWithin(views("page STRING, seen TIMESTAMP, user STRING"), on="user", within="1 hour"),
        ),
    ]
    for before, after in windows:
        yield clicks().transform(before), clicks().transform(after)
    arrived = read_topic(spark, "clicks", schema=SCHEMA, event_time="_timestamp", watermark="10 minutes")
    yield clicks().transform(op.Tumbling("1 minute")), arrived.transform(op.Tumbling("1 minute"))
    by_minute, by_hour = (clicks().groupBy(F.window("at", each)).count() for each in ("1 minute", "1 hour"))
    yield by_minute, by_hour
    yield (
        clicks().dropDuplicatesWithinWatermark(["user"]),
        clicks(watermark="1 hour").dropDuplicatesWithinWatermark(["user"]),
    )
    yield (
        clicks().transform(op.JoinWithin(views(), on="user", within="1 hour")),
        clicks("url STRING, user STRING, at TIMESTAMP").transform(
            op.JoinWithin(views(), on="user", within="1 hour")
        ),
    )


def test_state_of_other_parameters_is_rejected(spark: SparkSession) -> None:
    for before, after in other_parameters(spark):
        steps, others = read(before).steps, read(after).steps
        assert check_fits("j", steps, read(before).steps) == ()
        with pytest.raises(BadJob, match="A stateful step"):
            check_fits("j", steps, others)


def test_rejection_names_the_length_that_changed(clicks: DataFrame) -> None:
    minute, hour = (read(clicks.transform(op.Tumbling(each))).steps for each in ("1 minute", "1 hour"))
    with pytest.raises(BadJob, match="computed with 3600000000 instead of 60000000"):
        check_fits("j", minute, hour)


def test_step_that_an_earlier_version_saved_is_compared_by_its_text(
    clicks: DataFrame, tmp_path: Path
) -> None:
    steps = read(clicks.transform(op.Tumbling("1 minute"))).steps
    old = [{"kind": each.kind, "operator": each.operator, "detail": each.detail} for each in steps]
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "steps": old}))
    before = saved_steps(LocalFolder(tmp_path), "plan.json")
    assert before is not None
    assert check_fits("j", before, steps) == ()


def joined_by_spark(clicks: DataFrame, views: DataFrame) -> DataFrame:
    """An interval join of two streams as Spark's own join."""
    seen = views.withColumnRenamed("user", "viewer")
    return clicks.join(seen, F.expr("user = viewer AND seen BETWEEN at - INTERVAL 1 HOUR AND at"))


def test_column_that_is_added_to_a_side_of_a_join_fits(spark: SparkSession, clicks: DataFrame) -> None:
    joined = []
    for schema in ("user STRING, seen TIMESTAMP", "user STRING, seen TIMESTAMP, page STRING"):
        views = read_topic(spark, "views", schema=schema, event_time="seen", watermark="1 hour")
        rows = joined_by_spark(clicks, views.drop(*RECORD_COLUMNS))
        joined.append([step for step in read(rows).steps if step.kind is StepKind.STATEFUL])
    assert check_fits("j", *joined) == ()


def test_state_of_the_join_of_spark_is_rejected(spark: SparkSession, clicks: DataFrame) -> None:
    views = read_topic(spark, "views", schema=VIEWS, event_time="seen", watermark="10 minutes")
    views = views.drop(*RECORD_COLUMNS)
    before = read(joined_by_spark(clicks, views)).steps
    after = read(clicks.transform(op.JoinWithin(views, on="user", before="1 hour"))).steps
    with pytest.raises(
        BadJob, match=r"A stateful step was `join of streams: .*` and is now `transformWithState in Python"
    ):
        check_fits("j", before, after)


def test_step_of_spark_that_would_drop_rows_of_the_operator_before_is_found(
    spark: SparkSession, clicks: DataFrame
) -> None:
    views = read_topic(spark, "views", schema=VIEWS, event_time="seen", watermark="10 minutes")
    views = views.drop(*RECORD_COLUMNS)
    lagging = clicks.transform(op.JoinWithin(views, on="user", within="1 hour", suffix="_2"))
    in_time = clicks.transform(op.JoinWithin(views, on="user", before="1 hour", suffix="_2"))
    steps = {
        "Aggregate": lambda rows: rows.groupBy(F.window("at", "1 hour")).count(),
        "Deduplicate": lambda rows: rows.dropDuplicates(["url", "at"]),
        "DeduplicateWithinWatermark": lambda rows: rows.dropDuplicatesWithinWatermark(["url"]),
        "Join": lambda rows: joined_by_spark(rows.select("user", "at"), views),
    }
    for name, step in steps.items():
        (found,) = read(step(lagging)).lagging
        assert (found.detail.partition(" ")[0], found.lag_us) == (name, 3_600_000_000)
        assert read(step(in_time)).lagging == ()
    for rows in (
        lagging,
        lagging.transform(op.Tumbling("1 hour")),
        lagging.groupBy("url").count(),
        lagging.dropDuplicates(["url"]),
    ):
        assert read(rows).lagging == ()


def test_obstacles_of_realtime_mode_are_named(spark: SparkSession, clicks: DataFrame) -> None:
    def one(rows: DataFrame) -> str:
        (obstacle,) = realtime_obstacles(rows)
        return obstacle

    assert realtime_obstacles(clicks.where("user = 'ann'").select("url")) == []
    assert one(clicks.select(F.udf(lambda text: text)("url"))).startswith("the Python function <lambda> in")
    assert one(clicks.select("user").join(clicks.select("user"), "user")).startswith("a join of two streams")
    assert one(clicks.groupBy("url").count()).startswith("aggregate (Aggregate [url]")
    assert one(clicks.repartition(4)).startswith("repartition")
    assert one(spark.readStream.format("rate").load()) == "the source rate, which is no topic"
