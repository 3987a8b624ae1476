"""Samples on Spark: every row is in the sample with the same probability, and the sample is that of the set of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from tests.operators.approximation.clicks import clicks


def test_every_row_is_in_the_sample_with_the_same_probability(spark: SparkSession) -> None:
    # 300 samples of 5 from 20 rows.
    rows = spark.sql("select id, trial from range(20) cross join (select id as trial from range(300))")
    sample = rows.transform(op.Sample(5, by="trial"))
    counts = Counter(row.id for row in sample.collect())
    assert counts.total() == 5 * 300
    expected = 75
    deviation = sum((counts[number] - expected) ** 2 / (expected * 0.75) for number in range(20))
    # The 99.9th percentile of the chi-squared distribution with 19 degrees of freedom.
    assert deviation < 43.8


def test_sample_depends_on_the_rows_and_the_seed_only(spark: SparkSession) -> None:
    def sampled(partitions: int, seed: int = 0) -> list[int]:
        rows = clicks(spark, 500).repartition(partitions)
        return sorted(row.id for row in rows.transform(op.Sample(20, seed=seed)).collect())

    assert len(set(sampled(1))) == 20
    assert sampled(1) == sampled(4)
    assert sampled(1) != sampled(1, seed=1)


def test_key_with_few_rows_has_all_of_them_in_its_sample(spark: SparkSession) -> None:
    sample = clicks(spark, 50).transform(op.Sample(1_000, by="user"))
    assert sample.columns == [*clicks(spark).columns, "op"]
    assert sorted(row.id for row in sample.collect()) == list(range(50))


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Sample(0), "count"),
        (lambda: op.Sample(True), "count"),
        (lambda: op.Sample(1, seed=2**63), "seed"),
        (lambda: op.Sample(1, by=["a", "a"]), "by"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_column_that_does_not_exist_is_rejected_when_it_is_applied(spark: SparkSession) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        clicks(spark).transform(op.Sample(1, by="usr"))
    assert rejected.value.field == "by"
