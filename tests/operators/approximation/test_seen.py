"""Approximate de-duplication on Spark and on a stream, and settings that are rejected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from headrace import operators as op
from tests.operators.approximation.clicks import clicks
from tests.operators.streams import Stream


def test_one_row_of_each_key_is_kept(spark: SparkSession) -> None:
    rows = clicks(spark).transform(op.Seen(key="user", keys_max=1_000))
    assert rows.columns == clicks(spark).columns
    assert sorted(row.user for row in rows.collect()) == sorted({row.user for row in clicks(spark).collect()})


def test_keys_that_were_seen_before_are_marked_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    seen = op.Seen(key="user", keys_max=1_000, error=1e-6, column="is_returning")
    stream = Stream(spark, tmp_path, lambda rows: rows.transform(seen))
    first = stream.send([("a", 0, 1), ("b", 1, 1), ("a", 2, 1), (None, 3, 1)])
    assert sorted((str(row["user"]), row["is_returning"]) for row in first) == [
        ("None", False),
        ("a", False),
        ("a", True),
        ("b", False),
    ]
    second = stream.send([("b", 4, 1), ("c", 5, 1), (None, 6, 1)])
    assert sorted((str(row["user"]), row["is_returning"]) for row in second) == [
        ("None", True),
        ("b", True),
        ("c", False),
    ]


@pytest.mark.parametrize(
    ("create", "field"),
    [
        (lambda: op.Seen(key=[], keys_max=1), "key"),
        (lambda: op.Seen(key="id", keys_max=0), "keys_max"),
        (lambda: op.Seen(key="id", keys_max=cast("Any", 1.5)), "keys_max"),
        (lambda: op.Seen(key="id", keys_max=1, error=0.0), "error"),
        (lambda: op.Seen(key="id", keys_max=1, error=0.9), "error"),
        (lambda: op.Seen(key="id", keys_max=1, column=""), "column"),
    ],
)
def test_invalid_arguments_are_rejected_by_the_constructor(create: Callable[[], object], field: str) -> None:
    with pytest.raises(op.BadOperator) as rejected:
        create()
    assert rejected.value.field == field
    assert rejected.value.hint


def test_columns_that_do_not_fit_are_rejected_when_it_is_applied(spark: SparkSession) -> None:
    for operator, field in (
        (op.Seen(key="uid", keys_max=9), "key"),
        (op.Seen(key="id", keys_max=9, column="ms"), "column"),
    ):
        with pytest.raises(op.BadOperator) as rejected:
            clicks(spark).transform(operator)
        assert rejected.value.field == field
