"""The plan of a DataFrame, rebuilt with other options of its sources."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import read_topic
from headrace.pipeline.source.options import BATCH_BOUND, FETCH_WAIT, without_batch_options
from headrace.pipeline.source.read_topic import POLL_RECORDS_MAX


def options(rows: DataFrame) -> list[dict[str, str]]:
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    return [dict(leaves.apply(i).extraOptions().asCaseSensitiveMap()) for i in range(leaves.size())]


def test_source_takes_whole_fetches_from_its_consumer_unless_the_user_sets_another_number(
    spark: SparkSession,
) -> None:
    def polled(**given: str) -> str:
        (source,) = options(read_topic(spark, "clicks", format="text", options=given))
        return source["kafka.max.poll.records"]

    assert polled() == str(POLL_RECORDS_MAX)
    assert polled(**{"kafka.max.poll.records": "7"}) == "7"


def test_rows_for_real_time_mode_have_no_options_of_batches_and_are_otherwise_the_same(
    spark: SparkSession,
) -> None:
    def read(topic: str) -> DataFrame:
        return read_topic(spark, topic, schema="visits INT, at TIMESTAMP", event_time="at")

    rows = read("clicks").where("visits > 1").union(read("views"))
    unbound = without_batch_options(rows)
    assert unbound.schema == rows.schema
    of_batches = {BATCH_BOUND, FETCH_WAIT}
    assert all(of_batches <= set(each) for each in options(rows))
    without = [{name: each[name] for name in each if name not in of_batches} for each in options(rows)]
    assert options(unbound) == without
    assert len(without) == 2


def test_real_time_mode_keeps_the_fetch_wait_that_the_user_sets(spark: SparkSession) -> None:
    rows = read_topic(spark, "clicks", format="text", options={FETCH_WAIT: "100"})
    (source,) = options(without_batch_options(rows))
    assert source[FETCH_WAIT] == "100"
