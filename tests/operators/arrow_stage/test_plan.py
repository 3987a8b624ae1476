"""The stage between a source and an operator gives the rows and counts of Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.arrow_stage.expressions import Doubtful
from headrace.operators.arrow_stage.plan import Observe, StagePlan, find_stage
from headrace.operators.operator import Operator
from headrace.operators.state import spark as core
from headrace.plan_names import COLUMNS_ALIAS, EVENT_TIME, SKIPPED_METRIC
from tests.operators.arrow_stage.spark_oracle import (
    QUICK,
    SEEDS,
    as_table,
    random_table,
    source,
    stage_of,
    values_of,
)

CORRECT = op.Correct(within="1 minute")
PATTERN = """PARTITION BY user ORDER BY at MEASURES LAST(b.ms) AS x PATTERN (a b) WITHIN INTERVAL '1' MINUTE
    DEFINE a AS ms < 1, b AS ms > 2"""
WINDOWS: dict[str, Operator] = {
    "counts": op.Tumbling(
        "1 minute",
        by=["user", "score"],
        time="at",
        late=CORRECT,
        aggregate={"n": "count(*)", "users": "distinct(user)"},
    ),
    "filtered": op.Tumbling(
        "1 minute",
        by=["user", "score"],
        time="at",
        late=CORRECT,
        aggregate={"n": "max(n) filter (where ms > 3)", "r": "rate(score)", "s": "sum(ms)"},
    ),
    "hopping": op.Hopping(
        "1 hour", every="1 minute", by="n", time="at", late=CORRECT, aggregate={"m": "avg(ms)"}
    ),
    "session": op.Session(gap="1 minute", by="user", time="at", late=CORRECT, aggregate={"l": "last(url)"}),
    "pattern": op.MatchRecognize(PATTERN),
}


def rows_of_step(
    monkeypatch: pytest.MonkeyPatch, rows: DataFrame, operator: Callable[[DataFrame], DataFrame]
) -> DataFrame:
    """The rows that an operator passes to its step."""
    found: list[DataFrame] = []
    run_step = core.run_step

    def observed(rows: DataFrame, *arguments: object, **named: object) -> DataFrame:
        found.append(rows)
        return run_step(rows, *arguments, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as context:
        context.setattr(core, "run_step", observed)
        operator(rows)
    return found[0]


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.readStream.schema("user string, at timestamp, ms bigint, day date").json(str(folder))
    timed = rows.withColumn("at", F.col("at").alias("at", metadata={EVENT_TIME: True}))
    return timed.alias(f"{COLUMNS_ALIAS}clicks")


@pytest.mark.parametrize("name", WINDOWS)
def test_input_of_a_window_is_that_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    table = random_table(1)
    shop = source(spark, table).where("url like 'https%' or ms > 0").withColumn("_offset", F.col("ms"))
    rows = rows_of_step(monkeypatch, shop, WINDOWS[name])
    stage = pickle.loads(pickle.dumps(stage_of(rows)))
    found = stage.apply(table)
    expected = rows.toArrow()
    assert 0 < expected.num_rows < table.num_rows
    assert found.table.column_names == expected.column_names
    assert values_of(found.table) == values_of(expected)
    ((metric, counts),) = found.counts.items()
    assert metric.startswith(SKIPPED_METRIC)
    before = table.num_rows - shop.where("url not like 'https%' and ms <= 0").count()
    assert 0 < counts["no_time"] < before


def test_inputs_of_an_enrichment_are_those_of_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, of_users = random_table(2), random_table(3)
    users = source(spark, of_users).select("user", "url", "at", F.col("ms").alias("_offset"))
    clicks = source(spark, table).drop("place", "tags")
    enrich = op.Enrich(users, on="user", time="at", table_time="at")
    both = rows_of_step(monkeypatch, clicks, enrich)
    assert find_stage(both) is None
    for side, given_rows in (
        (enrich._lookups(clicks, clicks.columns, ["url"]), table),
        (enrich._changes(clicks, clicks.columns, ["url"]), of_users),
    ):
        found = stage_of(side).apply(given_rows).table
        assert values_of(found) == values_of(side.toArrow())


@QUICK
@given(SEEDS)
def test_filters_and_projections_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    table = random_table(seed)
    rows = (
        source(spark, table)
        .alias("clicks")
        .where("clicks.user is not null")
        .withColumn("n", F.expr("n % 10"))
        .withColumn("n", F.expr("n + n"))
        .withColumn("is_few", F.expr("n < 5"))
        .where("is_few or score > 0")
        .withColumnRenamed("user", "name")
        .drop("tags", "body")
        .selectExpr("*", "concat(name, '!') as user", "n as again", "unix_millis(at) % 7 as part", "1 as one")
        .where("part is null or part <> 3")
    )
    assert values_of(stage_of(rows).apply(table).table) == values_of(rows.toArrow())


def test_rows_of_a_view_are_those_of_spark(spark: SparkSession) -> None:
    table = random_table(5)
    source(spark, table).createOrReplaceTempView("clicks_of_stage")
    try:
        rows = spark.sql("select c.user, ms & 3 as part from clicks_of_stage as c where ms > 3 and is_new")
        assert values_of(stage_of(rows).apply(table).table) == values_of(rows.toArrow())
    finally:
        spark.catalog.dropTempView("clicks_of_stage")


def test_only_columns_that_are_needed_are_read_and_translated(spark: SparkSession) -> None:
    rows = (
        source(spark, random_table(1, 5)).withColumn("by_chance", F.rand()).withColumn("low", F.lower("url"))
    )
    stage = stage_of(rows.where("n > 0").withColumn("twice", F.expr("ms * 2")).select("user", "twice"))
    assert stage.columns_needed == ("user", "ms", "n")
    assert stage.columns["ms"] == pa.int64()
    assert stage.source == "clicks"
    assert find_stage(rows.select("low")) is None
    assert find_stage(rows.where("by_chance > 0.5").select("user")) is None


def test_a_failing_expression_is_doubtful_only_if_it_is_needed(spark: SparkSession) -> None:
    table = as_table([{"ms": 2**63 - 1, "n": 1}, {"ms": 1, "n": 2}])
    rows = source(spark, table).withColumn("more", F.expr("ms + 1"))
    assert stage_of(rows.select("n")).apply(table).table["n"].to_pylist() == [1, 2]
    assert stage_of(rows.where("n > 1").select("more")).apply(table).table["more"].to_pylist() == [2]
    with pytest.raises(Doubtful):
        stage_of(rows.select("more")).apply(table)


def test_rows_are_counted_where_they_are_observed(spark: SparkSession) -> None:
    table = as_table([{"ms": 1, "user": "a"}, {"ms": 5}, {"ms": None, "user": "b"}])
    rows = (
        source(spark, table)
        .observe(
            "all",
            F.count(F.lit(1)).alias("rows"),
            F.count("user").alias("users"),
            F.count_if(F.col("ms") > 1).alias("large"),
        )
        .where("ms is not null")
        .observe("some", F.count_if(F.col("ms").isNull()).alias("none"), F.count("*").alias("rows"))
        .select("ms")
    )
    stage = stage_of(rows)
    expected = {"all": {"rows": 3, "users": 2, "large": 1}, "some": {"none": 0, "rows": 2}}
    assert stage.apply(table).counts == expected
    nothing = {metric: dict.fromkeys(values, 0) for metric, values in expected.items()}
    assert stage.apply(table.slice(0, 0)).counts == nothing
    assert [each.metric for each in stage.steps if isinstance(each, Observe)] == ["all", "some"]


def test_watermark_follows_the_newest_time_that_reaches_it(spark: SparkSession, tmp_path: Path) -> None:
    rows = stream(spark, tmp_path).where("ms > 0").withWatermark("at", "10 seconds").where("ms > 1")
    stage = stage_of(rows.select("user"))
    assert stage.watermark is not None
    assert stage.watermark.delay_ms == 10_000
    assert stage.columns_needed == ("user", "at", "ms")
    table = as_table([{"at": 7, "ms": 0}, {"at": 5, "ms": 1}, {"at": 3, "ms": 2}, {"at": None, "ms": 3}])
    applied = stage.apply(table)
    assert applied.newest_us == 3, "Spark moves the second condition below the watermark"
    assert applied.table.num_rows == 2
    assert stage.apply(table.slice(0, 1)).newest_us is None
    assert stage_of(stream(spark, tmp_path).select("at")).watermark is None


def test_result_without_columns_of_the_source_has_as_many_rows(spark: SparkSession) -> None:
    table = as_table([{"ms": 1}, {"ms": 2}])
    stage = stage_of(source(spark, table).select(F.lit("x").alias("x"), F.lit(None).cast("int").alias("y")))
    assert len(stage.columns_needed) == 1
    assert stage.apply(table).table.to_pylist() == [{"x": "x", "y": None}] * 2
    assert stage_of(source(spark, table).where("false").select(F.lit(1))).apply(table).table.num_rows == 0


def test_columns_of_another_type_are_converted(spark: SparkSession) -> None:
    table = as_table([{"user": "ann", "ms": 1}])
    stage = stage_of(source(spark, table).select("user", "ms"))
    large = pa.table({"ms": pa.array([1], pa.int32()), "user": pa.array(["ann"], pa.large_string())})
    applied = stage.apply(large).table
    assert applied.to_pylist() == [{"user": "ann", "ms": 1}]
    assert applied.schema == stage.schema


def test_names_of_the_result_may_occur_twice(spark: SparkSession) -> None:
    rows = source(spark, as_table([{}])).select("ms", F.col("n").alias("ms"))
    applied = stage_of(rows).apply(as_table([{"ms": 1, "n": 2}]))
    assert applied.table.column_names == ["ms", "ms"]
    assert [each.to_pylist() for each in applied.table.columns] == [[1], [2]]


@pytest.mark.parametrize(
    "steps",
    [
        lambda rows: rows.limit(1),
        lambda rows: rows.distinct(),
        lambda rows: rows.groupBy("user").count(),
        lambda rows: rows.union(rows),
        lambda rows: rows.join(rows.select("user").alias("other"), "user"),
        lambda rows: rows.select(F.explode("tags")),
        lambda rows: rows.orderBy("ms"),
        lambda rows: rows.repartition(2),
        lambda rows: rows.observe("sums", F.sum("ms")),
        lambda rows: rows.withColumn("user", F.udf(lambda each: each)("user")),
        lambda rows: rows.mapInArrow(lambda batches: batches, rows.schema),
    ],
)
def test_other_steps_are_left_to_spark(spark: SparkSession, steps: Callable[[DataFrame], DataFrame]) -> None:
    assert find_stage(steps(source(spark, as_table([{}])))) is None


def test_rows_without_the_alias_of_a_source_are_left_to_spark(spark: SparkSession) -> None:
    assert find_stage(spark.range(3).alias("headrace").where("id > 1")) is None


def test_source_with_a_type_that_arrow_has_not_is_read_without_it(spark: SparkSession) -> None:
    rows = spark.range(1).selectExpr(
        "id",
        "'a' collate UTF8_LCASE as text",
        "parse_json('1') as any",
        "struct('a' collate UTF8_LCASE as x) as s",
    )
    marked = rows.alias(f"{COLUMNS_ALIAS}x")
    assert stage_of(marked.select("id")).columns_needed == ("id",)
    assert find_stage(marked.where("text = 'A'").select("id")) is None
    assert find_stage(marked.select("id", "text")) is None
    assert find_stage(marked.where("s.x = 'A'").select("id")) is None


def test_stage_of_one_plan_is_always_the_same(spark: SparkSession) -> None:
    def stage() -> StagePlan:
        rows = source(spark, as_table([{}])).where("ms > 1").withColumn("more", F.expr("ms + 1"))
        return stage_of(rows.select("user", "more"))

    assert stage() == stage()
