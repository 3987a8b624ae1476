"""Translated expressions have the results of Spark, on all values; other expressions are left to Spark."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from hypothesis import given
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.arrow_stage.expressions import Doubtful
from headrace.operators.arrow_stage.plan import find_stage
from tests.operators.arrow_stage.spark_oracle import (
    QUICK,
    SEEDS,
    as_table,
    assert_same,
    random_expression,
    random_table,
    selected,
    source,
    stage_of,
    values_of,
)

COMPARED = ("user", "at", "day", "ms", "n", "tiny", "score", "ratio", "is_new", "price", "body", "local")
OTHERS = {"user": "url", "ms": "other", "score": "weight", "is_new": "is_paid"}

NEVER_FAILING = [
    *(
        f"{name} {sign} {OTHERS.get(name, name)}"
        for name in COMPARED
        for sign in ("=", "<=>", "<", ">=", "<>")
    ),
    *(f"{name} is null" for name in (*COMPARED, "place", "tags")),
    "user is not null",
    "score > weight",
    "score <= weight",
    "score > 0",
    "0 >= score",
    "score > 0.5",
    "price > 1.5",
    "score in (0, 1.5D)",
    "isnan(score)",
    "isnan(ratio)",
    "ms > 3",
    "ms > n",
    "n > 3 and is_new",
    "is_new and is_paid",
    "is_new or is_paid",
    "not (is_new or not is_paid)",
    "is_new = (ms > 0)",
    "user in ('a', 'ab', '')",
    "user in ('a', null)",
    "user not in ('a', 'é')",
    "user in (url, 'a')",
    "ms in (0, 1, 9223372036854775807)",
    "tiny in (1, 2)",
    "day in (date'2020-01-01', date'1970-01-01')",
    "at in (timestamp'1970-01-01 00:00:00')",
    "is_new in (true)",
    "ms between 1 and 5",
    "ms not between n and other",
    "(ms between 1 and 2) between is_new and is_paid",
    "ms between 1 and if(n between 1 and 2, 5, 6)",
    "nullif(ms, nullif(other, nullif(1L, ms)))",
    "user like 'a%'",
    "user like '%a'",
    "user like '%a%'",
    "user like 'a%b'",
    "user like 'aa%aa'",
    "user like '%'",
    "user like 'ab'",
    "user like ''",
    "user like '%é'",
    "user not like 'https://%'",
    "startswith(user, 'a')",
    "startswith(user, '')",
    "endswith(user, 'b')",
    "endswith(user, '')",
    "contains(user, 'a%')",
    "contains(user, '')",
    "length(user)",
    "length(body)",
    "concat(user, '-', url)",
    "user || 'é'",
    "coalesce(user, url, 'none')",
    "coalesce(ms, n, 0)",
    "coalesce(is_new, false)",
    "nvl(user, url)",
    "ifnull(score, 0)",
    "nullif(user, 'a')",
    "nullif(ms, 0)",
    "if(is_new, user, url)",
    "if(is_new is null, null, ms)",
    "case when ms > 3 then 'many' when ms > 0 then 'few' end",
    "case when is_new then score when is_paid then ms else -1.0D end",
    "case when ms > 3 or score > 1 then 2 else 0 end",
    "cast(case when user is null then 2 else 0 end as tinyint)",
    "unix_micros(at)",
    "unix_micros(cast(at as timestamp))",
    "unix_micros(cast(local as timestamp))",
    "unix_micros(at) < -62135596800000000",
    "unix_millis(at)",
    "unix_seconds(at)",
    "timestamp_micros(ms)",
    "cast(at as date)",
    "cast(local as date)",
    "cast(at as timestamp_ntz)",
    "cast(day as timestamp)",
    "cast(day as timestamp_ntz)",
    "at >= timestamp'2020-01-01 10:00:00.123'",
    "local < timestamp_ntz'2020-01-01 10:00:00.123'",
    "day > date'2020-01-01'",
    "at - interval 1 microsecond",
    "at + interval 90 minutes",
    "at + interval '3 10' day to hour",
    "local - interval 2 days",
    "cast(tiny as int)",
    "cast(n as bigint)",
    "cast(ms as double)",
    "cast(ms as float)",
    "cast(n as float)",
    "cast(score as float)",
    "cast(ratio as double)",
    "cast(is_new as int)",
    "cast(ms as string)",
    "cast(tiny as string)",
    "cast(is_new as string)",
    "cast(null as string)",
    "cast(null as array<struct<key: string, value: binary>>)",
    "score + weight",
    "score - 1",
    "score * weight",
    "ratio * ratio",
    "-score",
    "score + cast(0.0 as double)",
    "score * 0.1 + 1e-3",
    "ms % 3",
    "n % 1000",
    "tiny % 7",
    "pmod(ms, 60000000)",
    "pmod(n, 7)",
    "ms & 255",
    "ms | other",
    "n ^ 5",
    "shiftrightunsigned(ms, 2)",
    "shiftrightunsigned(ms, 0)",
    "place.city",
    "place.number > 0",
    "place",
    "tags",
    "price",
    "if(null, 1, 2)",
    "null and is_new",
    "null or is_new",
    "not null",
    "null is null",
    "coalesce(null, user)",
    "coalesce(null, null)",
    "user = null",
    "user in (null)",
    "null <=> ms",
    "concat(user, null)",
    "ms + null",
    "ms > 0 and null",
    "'a' like 'a%'",
    "3 > 2",
    "1 = 1 and ms > 0",
    "hour(at)",
    "minute(at)",
    "second(at)",
    "hour(local)",
    "to_date(at)",
    "to_date(day)",
    *(f"date_trunc('{unit}', at)" for unit in ("millisecond", "SECOND", "minute", "HOUR", "day")),
    "abs(score)",
    "abs(ratio)",
    "greatest(ms, other, 0)",
    "least(n, 5)",
    "least(at, timestamp'2020-01-01')",
    "greatest(at, null)",
    "nanvl(score, weight)",
    "nanvl(score, null)",
    "cast(user as varchar(3))",
    "'headrace'",
    "1",
    "1.5F",
    "true",
    "xxhash64(user)",
    "xxhash64(user, url)",
    "xxhash64(user is null, user)",
    "xxhash64('headrace', user is null, user, url is null, url)",
    "xxhash64(ms, n, small, tiny, is_new)",
    "xxhash64(score, ratio, weight + 0.0D)",
    "xxhash64(at, local, day, price, body)",
    "xxhash64(null, user)",
    "xxhash64(0)",
    "xxhash64(user, 'x', 7)",
    "xxhash64(place.city, place.number)",
    "if((user) is null, null, xxhash64(user))",
    "shiftrightunsigned(xxhash64(user, at, ms), 2) + case when is_new then 0L else 4611686018427387904L end",
]

CHECKED = {
    "ms + other": "try_add(ms, other)",
    "ms - other": "try_subtract(ms, other)",
    "ms * 2": "try_multiply(ms, 2)",
    "n + n": "try_add(n, n)",
    "tiny * tiny": "try_multiply(tiny, tiny)",
    "score / weight": "try_divide(score, weight)",
    "ms / 1000": "try_divide(ms, 1000)",
    "ms / n": "try_divide(ms, n)",
    "cast(ms as int)": "try_cast(ms as int)",
    "cast(n as tinyint)": "try_cast(n as tinyint)",
    "cast(score as bigint)": "if(score < 9.2e18D and score > -9.2e18D, try_cast(score as bigint), null)",
    "cast(score as int)": "try_cast(score as int)",
    "cast(ratio as int)": "try_cast(ratio as int)",
    "-ms": "try_subtract(0L, ms)",
    "abs(n)": "if(n = -2147483648, null, abs(n))",
    "at + interval 100000000 days": "if(unix_micros(at) > 583372036854775807, null, at + interval 100000000 days)",
}
"""Expressions that fail on some rows, and others that are null there."""

LAZY = [
    "is_new and ms * 4 > 0",
    "ms > 0 and ms < 1000 and ms * 4 > 100",
    "ms > 1000 or ms < -1000 or ms * 4 > 100",
    "if(abs_ok, ms * 4, 0)",
    "case when abs_ok then ms * 4 when ms > 0 then 1L end",
    "coalesce(if(abs_ok, null, 7L), ms * 4)",
]

LEFT_TO_SPARK = [
    "upper(user)",
    "lower(user)",
    "user like 'a_b'",
    "user like 'a\\\\%'",
    "user like '%a%b%'",
    "user like 'a/%' escape '/'",
    "user rlike 'a.*'",
    "user like url",
    "contains(user, url)",
    "user collate UTF8_LCASE = 'a'",
    "cast(user as int)",
    "user = 1",
    "cast(score as string)",
    "cast(at as string)",
    "cast(ms as timestamp)",
    "try_add(ms, 1)",
    "try_cast(ms as int)",
    "try_divide(ms, 2)",
    "ms div 2",
    "ms % n",
    "ms % -3",
    "pmod(ms, n)",
    "price + 1",
    "cast(price as double)",
    "at + interval 1 month",
    "at + make_dt_interval(n)",
    "xxhash64(tags)",
    "xxhash64(place)",
    "tags[0]",
    "size(tags)",
    "exists(tags, x -> x = 'a')",
    "named_struct('a', user)",
    "to_json(place)",
    "place = place",
    "coalesce(place, place)",
    "rand()",
    "current_timestamp()",
    "-0.0D",
    "body = X'00'",
    "substring(user, 1, 2)",
    "date_trunc('week', at)",
    "date_trunc(user, at)",
    "to_date(user)",
    "greatest(score, 0)",
    "greatest(user, 'a')",
    "least(day, null)",
    "floor(score)",
    "0.1F",
    "cast(1e30D as int)",
]


@QUICK
@given(seed=SEEDS)
def test_results_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    table = random_table(seed)
    rows = selected(source(spark, table), NEVER_FAILING)
    stage = pickle.loads(pickle.dumps(stage_of(rows)))
    assert_same(stage, table, rows, NEVER_FAILING)
    empty = table.slice(0, 0)
    assert stage.apply(empty).table.num_rows == 0


@QUICK
@given(seed=SEEDS)
def test_results_of_nested_expressions_are_those_of_spark(spark: SparkSession, seed: int) -> None:
    random, table = Random(seed), random_table(seed)
    texts = [random_expression(random) for _ in range(60)]
    rows = selected(source(spark, table), texts)
    assert_same(stage_of(rows), table, rows, texts)


@QUICK
@given(seed=SEEDS)
def test_rows_on_which_spark_fails_are_doubtful_and_no_others(spark: SparkSession, seed: int) -> None:
    table = random_table(seed)
    rows = source(spark, table)
    safe = values_of(selected(rows, list(CHECKED.values())).toArrow())
    for (text, _), expected in zip(CHECKED.items(), safe, strict=True):
        stage = stage_of(selected(rows, [text]))
        for place, value in enumerate(expected):
            one = table.slice(place, 1)
            inputs = [one.column(name)[0].is_valid for name in stage.columns]
            if value == "None" and all(inputs):
                with pytest.raises(Doubtful):
                    pytest.fail(f"{text}: {stage.apply(one).table.to_pylist()} of {one.to_pylist()}")
            else:
                assert values_of(stage.apply(one).table) == [[value]], (text, one.to_pylist())


@QUICK
@given(seed=SEEDS)
def test_only_rows_that_spark_evaluates_are_doubtful(spark: SparkSession, seed: int) -> None:
    table = random_table(seed)
    rows = source(spark, table).withColumn("abs_ok", F.expr("ms > -1000 and ms < 1000"))
    rows = rows.where("ms is null or not is_new or abs_ok")
    chosen = selected(rows, LAZY)
    assert_same(stage_of(chosen), table, chosen, LAZY)


def test_constants_of_python_are_those_of_spark(spark: SparkSession) -> None:
    table = random_table(4)
    numbers = [0.1, float("nan"), float("inf"), float("-inf"), 1e-320]
    found = source(spark, table)
    for number, value in enumerate(numbers):
        found = found.withColumn(f"is_more_{number}", F.col("score") > F.lit(value))
        found = found.withColumn(f"more_{number}", F.col("weight") * F.lit(value))
    day = datetime(2020, 1, 1, 10, tzinfo=UTC)
    found = found.withColumns(
        {
            "is_later": F.col("at") > F.lit(day),
            "is_near": F.col("at").between(F.lit(day - timedelta(days=900)), F.lit(day)),
            "moved": F.col("at") + F.lit(timedelta(days=2, microseconds=1)),
            "is_day": F.col("day") > F.lit(day.date()),
            "is_chosen": F.col("user").isin("a", "ab") | F.col("ms").isin([0, 1]),
            "is_listed": F.col("price").isin(Decimal("1.50")),
        }
    ).dropna(subset=["user", "score", "ms"])
    found = found.drop("price").fillna(0).fillna("none")
    assert values_of(stage_of(found).apply(table).table) == values_of(found.toArrow())


def test_sums_wrap_without_ansi_mode(spark: SparkSession) -> None:
    table = as_table([{"ms": 2**63 - 1, "n": -(2**31), "tiny": 127}])
    texts = ["ms + 1", "n * 2", "tiny - -1Y", "-n", "ms * ms"]
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        rows = selected(source(spark, table), texts)
        stage = stage_of(rows)
        assert find_stage(selected(source(spark, table), ["cast(ms as int)"])) is None
        assert find_stage(selected(source(spark, table), ["ms / 2"])) is None
        expected = rows.toArrow()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", "true")
    assert values_of(stage.apply(table).table) == values_of(expected)


@pytest.mark.parametrize("text", LEFT_TO_SPARK)
def test_expression_without_a_translation_is_left_to_spark(spark: SparkSession, text: str) -> None:
    assert find_stage(selected(source(spark, as_table([{}])), [text])) is None


def test_times_in_another_zone_are_left_to_spark(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        rows = source(spark, as_table([{}]))
        assert find_stage(selected(rows, ["cast(local as timestamp)"])) is None
        assert find_stage(selected(rows, ["at + interval 1 day"])) is None
        assert find_stage(selected(rows, ["hour(at)"])) is None
        assert find_stage(selected(rows, ["date_trunc('day', at)"])) is None
        assert find_stage(selected(rows, ["to_date(at)"])) is None
        assert find_stage(selected(rows, ["unix_micros(at)", "at > timestamp'2020-01-01'"])) is not None
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
