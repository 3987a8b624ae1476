"""Changelogs of changes by key on Spark, and changes that are rejected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace import operators as op
from tests.operators.tables.orders import orders, users


class Scores:
    """Lists of changes as micro-batches. Each `work` is a run of its own that continues from the checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._input = folder / "input"
        self._input.mkdir()
        self._count = 0
        self.emitted: Counter[tuple[Any, ...]] = Counter()

    def work(self, *changes: tuple[int, int, str | None, int | None, str]) -> Counter[tuple[Any, ...]]:
        """(id, version, team, points, op)"""
        self._count += 1
        names = ("id", "version", "team", "points", "op")
        lines = [json.dumps(dict(zip(names, change, strict=True))) + "\n" for change in changes]
        (self._input / f"{self._count:04}.json").write_text("".join(lines))
        schema = "id bigint, version bigint, team string, points bigint, op string"
        aggregate = {"n": "count(*)", "total": "sum(points)", "best": "max(points)"}
        query = (
            self._spark.readStream.schema(schema)
            .json(str(self._input))
            .transform(op.Changelog(key="id", order="version"))
            .transform(op.GroupChanges(by="team", aggregate=aggregate))
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self.emitted

    def _keep(self, batch: DataFrame, number: int) -> None:
        for *row, sign in batch.collect():
            self.emitted[tuple(row)] += 1 if sign == "+" else -1
        assert min(self.emitted.values(), default=0) >= 0
        self.emitted = +self.emitted


def test_groups_of_a_stream_follow_rows_that_change_their_group_across_a_restart(
    spark: SparkSession, tmp_path: Path
) -> None:
    scores = Scores(spark, tmp_path)
    emitted = scores.work(
        (1, 2, "red", 5, "u"), (1, 1, "red", 4, "c"), (2, 1, "red", 7, "c"), (3, 1, None, 1, "c")
    )
    assert emitted == Counter([("red", 2, 12, 7), (None, 1, 1, 1)])
    # One changes the team, one is deleted; older and duplicate changes have no effect.
    emitted = scores.work(
        (2, 2, "blue", 7, "u"), (1, 1, "old", 9, "u"), (1, 2, "red", 5, "u"), (3, 2, None, None, "d")
    )
    assert emitted == Counter([("blue", 1, 7, 7), ("red", 1, 5, 5)])


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Changelog(key=[]), "key"),
        (lambda: op.Changelog(key="id", order=[]), "order"),
        (lambda: op.Changelog(key=["id", "id"]), "key"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda spark: orders(spark).transform(op.Changelog(key="idd", order="at")), "key"),
        (lambda spark: orders(spark).transform(op.Changelog(key="id", order="when")), "order"),
        (lambda spark: orders(spark).transform(op.Changelog(key="id", order="where")), "order"),
        (lambda spark: orders(spark).transform(op.Changelog(key="tags", order="at")), "key"),
        (
            lambda spark: (
                orders(spark)
                .transform(op.Changelog(key="id", order="at"))
                .transform(op.Changelog(key="id", order="at"))
            ),
            "key",
        ),
    ],
)
def test_a_changelog_that_does_not_fit_the_rows_is_rejected_when_it_is_applied(
    spark: SparkSession, create: Callable[[SparkSession], DataFrame], field: str
) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create(spark)
    assert rejected.value.field == field
    assert rejected.value.hint


def test_a_null_in_the_key_fails_the_job_with_a_remedy(spark: SparkSession) -> None:
    updates = users(spark).withColumn("op", F.lit("u"))
    with pytest.raises(PySparkException, match=r"null in its key .*NOT NULL"):
        updates.transform(op.Changelog(key="user", order="city")).collect()
