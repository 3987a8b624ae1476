"""The common checks of joins: compared columns, the other side, and names in the result."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.operators.joins.sides import (
    On,
    Pairs,
    names_in_result,
    read_on,
    require_frame,
    require_like_sides,
)
from headrace.operators.operator import BadOperator


@pytest.mark.parametrize(
    ("on", "pairs"),
    [
        ("user", (("user", "user"),)),
        (["user", "city"], (("user", "user"), ("city", "city"))),
        ({"user": "id", "city": "town"}, (("user", "id"), ("city", "town"))),
    ],
)
def test_compared_columns_are_pairs(on: On, pairs: Pairs) -> None:
    assert read_on(on, operator="Join") == pairs


@pytest.mark.parametrize("on", ["", [], {}, ["a", "a"], {"a": "c", "b": "c"}, {"a": ""}])
def test_missing_or_repeated_columns_are_rejected(on: On) -> None:
    with pytest.raises(BadOperator, match="Join: on") as rejected:
        read_on(on, operator="Join")
    assert rejected.value.hint


@pytest.mark.parametrize("frame", [None, "users", 3])
def test_only_a_dataframe_is_accepted(frame: Any) -> None:
    with pytest.raises(BadOperator, match="must be a DataFrame") as rejected:
        require_frame(frame, operator="Join", field="other")
    assert rejected.value.field == "other"


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        (["city"], {"city": "city"}),
        (["at", "city"], {"at": "at_right", "city": "city"}),
        ([], {}),
    ],
)
def test_a_column_that_both_sides_have_gets_the_suffix(added: list[str], expected: dict[str, str]) -> None:
    assert names_in_result(["user", "at"], added, suffix="_right", operator="Join") == expected


@pytest.mark.parametrize(
    ("taken", "added"), [(["at", "at_right"], ["at"]), (["at"], ["at", "at_right"])], ids=["rows", "added"]
)
def test_a_suffix_that_makes_two_equal_names_is_rejected(taken: list[str], added: list[str]) -> None:
    with pytest.raises(BadOperator, match="a second column 'at_right'") as rejected:
        names_in_result(taken, added, suffix="_right", operator="Join")
    assert rejected.value.field == "suffix"


def test_compared_columns_must_exist_and_have_one_type(spark: SparkSession) -> None:
    rows, other = spark.range(1).selectExpr("id", "'x' AS word"), spark.range(1).selectExpr("id AS number")
    require_like_sides(rows, other, (("id", "number"),), operator="Join", field="other")
    for pairs, problem in (
        ((("id", "id"),), "names column 'id', which does not exist"),
        ((("word", "number"),), "compares 'word', which is string, with 'number', which is bigint"),
    ):
        with pytest.raises(BadOperator, match=problem):
            require_like_sides(rows, other, pairs, operator="Join", field="other")
