"""Aggregates on Spark: sketches beside Spark's exact results, rates beside their counts and sums."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.streams import EventRow, Stream, bounded

ROWS: list[EventRow] = [
    (user, seconds, (seconds * 7) % 23 if seconds % 5 else None)
    for seconds in range(0, 150, 3)
    for user in ("ann", "bob", None)[: 1 + seconds % 3 + seconds % 2]
]
SKETCHES = {
    "users": "distinct(user)",
    "kinds": "distinct(ms % 2 * -0.0)",
    "middle": "percentile(ms, 0.5)",
    "slow": "percentile(ms + 0.5, 0.95)",
    "often": "top(user, 1)",
    "spread": "max(ms) - min(ms) filter (where ms > 3)",
}


def plainly(found: Any) -> Any:
    return tuple(map(tuple, found)) if isinstance(found, list) else found


def shown(rows: list[Any]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(plainly(row[name]) for name in ("window_start", *SKETCHES)) for row in rows)


def test_sketches_of_few_values_equal_the_exact_results_of_spark(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    sketched = rows.transform(op.Tumbling("1 minute", time="at", aggregate=SKETCHES))
    exact = rows.groupBy(F.window("at", "1 minute").start.alias("window_start")).agg(
        F.count_distinct("user").alias("users"),
        F.lit(1).alias("kinds"),  # both zeros are one value
        F.percentile("ms", 0.5).alias("middle"),
        F.percentile(F.col("ms") + 0.5, 0.95).alias("slow"),
        F.array(F.struct(F.mode("user", deterministic=True), F.count_if(F.col("user") == "ann"))).alias(
            "often"
        ),
        F.expr(SKETCHES["spread"]).alias("spread"),
    )
    assert shown(sketched.collect()) == shown(exact.collect())


def test_a_stream_with_sketches_ends_with_the_batch_result(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling(
        "1 minute",
        time="at",
        aggregate=SKETCHES,
        trigger=op.Trigger(early=1),
        late=op.Correct(within="1 hour"),
    )
    stream = Stream(spark, tmp_path, window)
    emitted = stream.send(ROWS[::2])
    emitted += stream.send(ROWS[1::2])
    current = shown([row for row in emitted if row["op"] == "+"])
    current.subtract(shown([row for row in emitted if row["op"] == "-"]))
    assert all(count >= 0 for count in current.values()), "retracted a row that was never emitted"
    assert +current == shown(window(bounded(spark, ROWS)).collect())


@pytest.mark.parametrize(
    ("window", "seconds"),
    [
        (op.Tumbling("1 minute", by="user", time="at"), 60),
        (op.Hopping("1 minute", every="30 seconds", by="user", time="at"), 60),
        (op.Session(gap="50 seconds", by="user", time="at"), None),
        (op.Sliding("20 seconds", by="user", time="at"), 20),
    ],
    ids=lambda each: type(each).__name__.lower(),
)
def test_a_rate_is_by_the_seconds_of_the_window(
    spark: SparkSession, window: Any, seconds: int | None
) -> None:
    aggregate = {"n": "count(*)", "total": "sum(ms)", "per_s": "rate(*)", "ms_per_s": "rate(ms)"}
    rated = replace(window, aggregate=aggregate)
    rows = bounded(spark, ROWS)
    for one in (rated, replace(rated, trigger=op.Trigger())):
        found = one(rows).collect()
        assert found
        for row in found:
            length = (row.window_end - row.window_start).total_seconds()
            assert seconds in (None, length)
            assert row.per_s == pytest.approx(row.n / length)
            assert (row.ms_per_s is None) == (row.total is None)
            assert row.total is None or row.ms_per_s == pytest.approx(row.total / length)


@pytest.mark.parametrize("text", ["percentile(user, 0.5)", "top(pair, 1)", "distinct(nothing)"])
def test_a_sketch_that_does_not_fit_the_rows_is_rejected(spark: SparkSession, text: str) -> None:
    rows = bounded(spark, ROWS).withColumn("pair", F.struct("user", "ms"))
    with pytest.raises(op.BadOperator) as rejected:
        rows.transform(op.Tumbling("1 minute", time="at", aggregate={"n": text}))
    assert rejected.value.field == "aggregate"
    assert rejected.value.hint


FORMULAS = {
    "n": "count(*)",
    "share": "sum(ms) / count(*)",
    "range": "max(ms) - min(ms)",
    "slow": "count(*) filter (where ms > 10)",
    "slow_ms": "sum(ms) FILTER (WHERE ms > 10 and user in ('ann', 'b)b'))",
    "slow_share": "round(count(*) filter (where ms > 10) / count(*), 3)",
    "bounds": "struct(min(ms), coalesce(max(ms) filter (where ms < 0), -1))",
    "key": "concat(user, '-', count(ms))",
}


def test_filters_and_formulas_are_those_of_spark(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    expected = rows.groupBy("user").agg(*(F.expr(text).alias(name) for name, text in FORMULAS.items()))
    window = op.Tumbling("1 hour", by="user", time="at", aggregate=FORMULAS)
    groups = op.GroupChanges(by="user", aggregate=FORMULAS)
    for one in (window, replace(window, trigger=op.Trigger()), groups):
        found = rows.transform(one)
        assert [name for name in found.columns if name in FORMULAS] == list(FORMULAS)
        shown = found.select("user", *FORMULAS)
        assert [each.dataType for each in shown.schema] == [each.dataType for each in expected.schema]
        assert by_user(shown, FORMULAS) == by_user(expected, FORMULAS)


def test_formulas_of_the_first_and_last_value_do_not_depend_on_spark(spark: SparkSession) -> None:
    rows = bounded(spark, ROWS)
    aggregate = {
        "first": "first(ms)",
        "last": "last(ms)",
        "change": "last(ms) - first(ms)",
        "per_minute": "rate(*) * 60",
        "slow_per_s": "rate(*) filter (where ms > 10)",
        "slow": "count(*) filter (where ms > 10)",
        "early": "collect(ms, 2) filter (where ms > 10)",
        "n": "count(*)",
    }
    window = op.Tumbling("1 minute", by="user", time="at", aggregate=aggregate)
    for one in (window, replace(window, trigger=op.Trigger())):
        for row in rows.transform(one).collect():
            assert row.change == row["last"] - row["first"]
            assert (row.per_minute, row.slow_per_s) == (pytest.approx(row.n), pytest.approx(row.slow / 60))
            assert all(ms > 10 for ms in row.early)
            assert len(row.early) == min(row.slow, 2)


@pytest.mark.parametrize(
    "text", ["count_if(ms > 1) / count(*)", "sum(ms) / nothing", "completeness(*) filter (where ms > 1)"]
)
def test_a_formula_that_the_core_can_not_compute_is_rejected(spark: SparkSession, text: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        bounded(spark, ROWS).transform(
            op.Tumbling("1 minute", time="at", aggregate={"x": text}, trigger=op.Trigger())
        )
    assert (rejected.value.field, bool(rejected.value.hint)) == ("aggregate", True)


TYPED = {
    "boolean": "n % 2 = 0",
    "tinyint": "cast(n - 2 as tinyint)",
    "smallint": "cast(n as smallint)",
    "int": "cast(n as int)",
    "bigint": "n",
    "float": "cast(n / 2 as float)",
    "double": "if(n = 3, double('NaN'), n / 2)",
    "decimal": "cast(n / 8 as decimal(10, 3))",
    "wide_decimal": "cast(n / 8 as decimal(38, 10))",
    "string": "cast(100 - n as string)",
    "binary": "unhex(hex(n % 3))",
    "date": "date_add(date'2026-01-01', cast(n % 3 as int))",
    "timestamp": "timestamp_micros(n)",
    "timestamp_ntz": "cast(timestamp_micros(n) as timestamp_ntz)",
    "interval_seconds": "n * interval 1 second",
    "interval_months": "cast(n as int) * interval 1 month",
    "calendar_interval": "make_interval(0, 0, 0, 0, 0, 0, cast(n as int))",
    "array": "array(n % 2, null, n)",
    "array_of_structs": "array(named_struct('x', n % 2, 'y', n), named_struct('x', -n, 'y', n))",
    "struct": "named_struct('x', if(n % 2 = 0, null, n), 'y', array(n, -n))",
    "struct_with_map": "named_struct('x', n, 'y', map(n, n))",
    "map": "map(n, 'x')",
    "map_entries": "map_entries(map(n % 2, n))",
    "variant": "parse_json(cast(n as string))",
    "array_of_variants": "array(parse_json('1'))",
    "void": "null",
}
"""An expression of each type of Spark, from `n`."""

FUNCTIONS = (
    "avg",
    "collect",
    "count",
    "distinct",
    "first",
    "last",
    "max",
    "min",
    "percentile",
    "rate",
    "stddev",
    "sum",
    "top",
)
SECOND_ARGUMENT = {"percentile": ", 0.5", "top": ", 2"}


def typed(spark: SparkSession) -> DataFrame:
    """Two rows of equal times among them, and a null of every type."""
    rows = spark.range(1, 6).select(
        (F.col("id") % 2).alias("user"),
        F.timestamp_micros(F.col("id") % 4 * 1_000_000).alias("at"),
        F.when(F.col("id") != 4, F.col("id")).alias("n"),
    )
    return rows.select(
        "*", *(F.expr(f"if(n is null, null, {text})").alias(name) for name, text in TYPED.items())
    )


def accepted_by(rows: DataFrame, create: Callable[[str], op.Operator]) -> tuple[dict[str, str], set[str]]:
    """The aggregates that the operator accepts, by a name, and the names of the others."""
    accepted, rejected = {}, {}
    for function in FUNCTIONS:
        for name in TYPED:
            text = f"{function}({name}{SECOND_ARGUMENT.get(function, '')})"
            try:
                rows.transform(create(text))
                accepted[f"{function}_{name}"] = text
            except op.BadOperator as error:
                rejected[f"{function}_{name}"] = error.field, bool(error.hint)
    assert set(rejected.values()) == {("aggregate", True)}
    return accepted, set(rejected)


def by_user(rows: DataFrame, names: Iterable[str]) -> list[str]:
    return sorted(str([row[name] for name in ("user", *names)]) for row in rows.collect())


@pytest.mark.slow
def test_every_aggregate_works_or_is_rejected_for_every_type_in_a_window_of_the_core(
    spark: SparkSession,
) -> None:
    rows = typed(spark)
    window = op.Tumbling("1 minute", by="user", time="at", trigger=op.Trigger())
    accepted, rejected = accepted_by(rows, lambda text: replace(window, aggregate={"x": text}))
    results = rows.transform(replace(window, aggregate=accepted)).cache()
    native = {name: text for name, text in accepted.items() if not re.match("distinct|percentile|top", text)}
    exact = rows.transform(replace(window, aggregate=native, trigger=None))
    assert by_user(results, native) == by_user(exact, native)
    assert {"min_struct", "last_array", "max_array_of_structs", "collect_map_entries"} <= accepted.keys()
    assert {"min_map", "last_map", "first_struct_with_map", "collect_variant", "max_void"} <= rejected


@pytest.mark.slow
def test_every_aggregate_works_or_is_rejected_for_every_type_in_groups(spark: SparkSession) -> None:
    rows = typed(spark)

    def create(text: str) -> op.Operator:
        return op.GroupChanges(by="user", aggregate={"x": text}, time="at")

    accepted, rejected = accepted_by(rows, create)
    results = rows.transform(op.GroupChanges(by="user", aggregate=accepted, time="at")).cache()
    timed = {name: text for name, text in accepted.items() if re.match("distinct|first|last", text)}
    exact = rows.groupBy("user").agg(
        *(F.expr(text).alias(name) for name, text in accepted.items() if name not in timed)
    )
    window = op.Tumbling("1 minute", by="user", time="at", trigger=op.Trigger(), aggregate=timed)
    assert by_user(results, exact.columns[1:]) == by_user(exact, exact.columns[1:])
    assert by_user(results, timed) == by_user(rows.transform(window), timed)
    assert {"min_struct", "max_array", "count_map"} <= accepted.keys()
    assert {"min_map", "max_struct_with_map"} <= rejected


DECIMALS = [(5, 5), (10, 2), (18, 4), (28, 10), (38, 0), (38, 2), (38, 34), (38, 38)]
DECIMAL_SCHEMA = ", ".join(
    ["user int", "at timestamp", *(f"d{p}_{s} decimal({p}, {s})" for p, s in DECIMALS)]
)


def random_decimal(digits: int, scale: int, *, sign: int, chosen: Random) -> Decimal | None:
    """Often close to what fits."""
    greatest = 10**digits - 1
    choices = (chosen.randint(0, greatest), greatest - chosen.randint(0, 9), chosen.randint(0, 9))
    unscaled = chosen.choice((None, *choices))
    return None if unscaled is None else Decimal((sign, tuple(map(int, str(unscaled))), -scale))


@pytest.mark.slow
def test_sums_and_averages_of_decimals_are_those_of_spark(spark: SparkSession) -> None:
    """The values of a group have one sign: Spark's sums may overflow on the way to zero."""
    chosen = Random(13)
    then = datetime(2026, 3, 1, tzinfo=UTC)
    users = [chosen.randint(0, 99) for _ in range(400)]
    rows = [
        (user, then, *(random_decimal(*each, sign=user % 2, chosen=chosen) for each in DECIMALS))
        for user in users
    ]
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        frame = spark.createDataFrame(rows, DECIMAL_SCHEMA).cache()
        aggregate = {
            f"{function}_{name}": f"{function}({name})"
            for function in ("sum", "avg")
            for name in frame.columns[2:]
        }
        exact = frame.groupBy("user").agg(*(F.expr(text).alias(name) for name, text in aggregate.items()))
        expected = by_user(exact, aggregate)
        assert any("None" in each for each in expected), "no sum overflows"
        window = op.Tumbling("1 day", by="user", time="at", aggregate=aggregate, trigger=op.Trigger())
        groups = op.GroupChanges(by="user", aggregate=aggregate)
        for found in (frame.transform(window), frame.transform(groups)):
            shown = found.select("user", *aggregate)
            assert [each.dataType for each in shown.schema] == [each.dataType for each in exact.schema]
            assert by_user(shown, aggregate) == expected
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
