"""Operators behind operators: a stream emits the rows of the bounded chain, or the chain is rejected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from headrace.operators.state.spark import BUCKETS_SETTING
from headrace.testing import Feed
from tests.conftest import SLOW_WORKER
from tests.operators.pipelines import SCHEMA, Batch, Pipeline, pipelines, rejection

LATE = -5_000
BATCHES: tuple[Batch, ...] = (
    ([("a", 1, 0), ("b", 2, 1), ("a", 3, 9.5), ("b", None, 7)], [("a", 10, 0), ("b", 20, 0.5)]),
    ([("c", 4, 12), ("a", 5, 18), ("a", 7, LATE), ("a", 1, 10)], [("a", 11, 10), ("c", 7, 14.5)]),
    ([], []),
    ([("b", 6, 31), ("b", 6, 31), ("a", 2, 27.5)], [("b", 21, 30), ("a", 12, 26)]),
)
CHAINS = {("join left", "core tumbling"): 0, ("seen", "top"): 2}
"""With the number of batches after which the stream restarts."""
MORE_CHAINS = {
    ("enrich", "enrich"): 0,
    ("join window", "table join"): 2,
    ("tumbling", "core session", "newest"): 1,
    ("enrich", "core tumbling"): 2,
    ("core hopping", "enrich waiting", "tumbling"): 0,
    ("sliding", "join", "days", "group"): 3,
    ("enrich", "corrected"): 2,
    ("enrich", "search", "tumbling"): 1,
    ("core session", "search limited", "newest"): 2,
    ("search", "join left"): 1,
    ("match", "core tumbling", "match rows"): 2,
    ("match rows", "match", "group"): 1,
    ("absence", "match"): 2,
    ("core tumbling", "heartbeat", "core session"): 2,
    ("heartbeat", "seen", "top window"): 1,
    ("core session", "match rows", "enrich"): 2,
    ("enrich", "approximate"): 1,
    ("top window", "sample"): 2,
    ("frequency", "clusters"): 3,
    ("join", "seen", "session"): 1,
    ("enrich waiting", "join left", "tumbling"): 2,
    ("join", "join left"): 1,
    ("join left", "join window", "core session"): 2,
    ("join", "absence", "hopping"): 1,
    ("heartbeat", "join window", "match"): 3,
    ("enrich", "join both"): 1,
    ("seen", "frequency", "core tumbling", "top"): 2,
}


@pytest.fixture(autouse=True)
def _few_buckets(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(BUCKETS_SETTING, "4")
    yield
    spark.conf.unset(BUCKETS_SETTING)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("stages", "restart_after"),
    [
        *(pytest.param(*each, id=" - ".join(each[0])) for each in CHAINS.items()),
        *(
            pytest.param(*each, id=" - ".join(each[0]), marks=pytest.mark.slow)
            for each in MORE_CHAINS.items()
        ),
    ],
)
def test_stream_has_the_rows_of_the_bounded_chain(
    spark: SparkSession, tmp_path: Path, stages: tuple[str, ...], restart_after: int
) -> None:
    pipeline = Pipeline(stages, BATCHES, restart_after, partitions=2)
    expected = pipeline.bounded(spark)
    assert expected
    assert pipeline.streamed(spark, tmp_path) == expected


EXAMPLES = 2_000 if settings.get_current_profile_name() == "explore" else 30


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(pipelines())
def test_random_chain_has_the_rows_of_the_bounded_chain_or_is_rejected(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, pipeline: Pipeline
) -> None:
    folder = tmp_path_factory.mktemp("pipeline")
    if rejection(pipeline, spark, folder) is None:
        try:
            found = pipeline.streamed(spark, folder)
        except StreamingQueryException as error:
            if SLOW_WORKER in str(error):
                reject()  # on a busy machine; it is no answer
            raise
        assert found == pipeline.bounded(spark)


def _timed(rows: DataFrame) -> DataFrame:
    return rows.withWatermark("at", "1 minute")


MINUTES = op.Tumbling("1 minute", by="user", aggregate={"n": "sum(n)"})
CORRECTED = op.Tumbling("1 minute", by="user", aggregate={"n": "sum(n)"}, late=op.Correct(within="1 hour"))
ACCUMULATING = op.Tumbling(
    "1 minute",
    by="user",
    aggregate={"n": "sum(n)"},
    trigger=op.Trigger(early="1 second", panes="accumulating"),
)


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        (
            lambda rows: (
                _timed(rows).transform(MINUTES).withWatermark("window_end", "1 minute").transform(MINUTES)
            ),
            "has a watermark behind another watermark",
        ),
        (
            lambda rows: (
                _timed(rows)
                .transform(MINUTES)
                .transform(op.Tumbling("1 hour", by="user", time="window_start"))
            ),
            "the watermark of the stream is on column 'window_end'",
        ),
        (
            lambda rows: _timed(rows).transform(CORRECTED).transform(MINUTES),
            "emit several panes (retracting)",
        ),
        (
            lambda rows: _timed(rows).transform(ACCUMULATING).transform(op.GroupChanges(by="user")),
            "windows with accumulating panes",
        ),
        (
            lambda rows: _timed(rows.transform(op.Changelog(key="user", order="at"))).transform(MINUTES),
            "is of a changelog",
        ),
        (
            lambda rows: (
                _timed(rows)
                .transform(op.Enrich(_timed(rows), on="user", wait="1 minute"))
                .withColumn("parsed", F.expr("parse_json('1')"))
                .transform(op.JoinWithin(_timed(rows), on="user", within="1 minute"))
            ),
            "emits up to 60 s after the watermark",
        ),
    ],
)
def test_chain_that_would_give_wrong_rows_is_rejected(
    spark: SparkSession, tmp_path: Path, chain: Callable[[DataFrame], DataFrame], problem: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        chain(Feed(spark, SCHEMA, tmp_path).rows)
    assert problem in str(rejected.value)
    assert rejected.value.hint


@pytest.mark.parametrize(
    "operator",
    [
        op.Approximate(aggregate={"n": "distinct(n)"}),
        op.TopN(3, of="n"),
        op.Sample(3),
        op.Frequency(of="n"),
        op.Seen(key="n", keys_max=10),
        op.StreamingKMeans(k=3, features="n"),
    ],
    ids=lambda operator: type(operator).__name__,
)
def test_sketch_of_rows_that_may_be_retracted_is_rejected(
    spark: SparkSession, tmp_path: Path, operator: op.Operator
) -> None:
    rows = Feed(spark, SCHEMA, tmp_path).rows
    for changing in (rows.transform(op.GroupChanges(by="n")), _timed(rows).transform(CORRECTED)):
        with pytest.raises(op.BadOperator) as rejected:
            changing.transform(operator)
        assert rejected.value.hint


def test_window_over_results_of_windows_includes_those_that_end_with_it(spark: SparkSession) -> None:
    rows = spark.sql("select 'a' as user, 1L as n, timestamp'2026-03-01 10:59:30' as at")
    minutes = rows.transform(op.Tumbling("1 minute", by="user", time="at", aggregate={"n": "sum(n)"}))
    hours = minutes.transform(op.Tumbling("1 hour", by="user", aggregate={"n": "sum(n)"}))
    assert [row.window_start.hour for row in hours.collect()] == [10]
