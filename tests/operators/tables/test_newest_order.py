"""Orders as users write them: names, directions and Spark columns."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.operators.operator import BadOperator
from headrace.operators.tables.newest_order import SortTerm, read_order, sort_terms


def terms(order: Any) -> tuple[SortTerm, ...]:
    return sort_terms(read_order(order, operator="Newest"))


def test_names_order_the_greatest_first() -> None:
    assert terms("at") == terms(["at"]) == (SortTerm("at", is_descending=True, nulls_first=False),)
    assert terms(["at", "post"]) == (SortTerm("at"), SortTerm("post"))


def test_null_is_the_least_value_unless_the_direction_says_otherwise() -> None:
    assert terms({"a": "asc", "b": "DESC", "c": "asc  nulls last", "d": "desc nulls first"}) == (
        SortTerm("a", is_descending=False, nulls_first=True),
        SortTerm("b", is_descending=True, nulls_first=False),
        SortTerm("c", is_descending=False, nulls_first=False),
        SortTerm("d", is_descending=True, nulls_first=True),
    )


def test_spark_columns_have_the_directions_of_spark(spark: SparkSession) -> None:
    assert terms([F.desc("a"), F.asc("b"), F.col("c").asc_nulls_last(), F.desc_nulls_first("`d.e`")]) == (
        SortTerm("a"),
        *terms({"b": "asc", "c": "asc nulls last", "d.e": "desc nulls first"}),
    )
    assert terms(F.desc("a")) == terms("a")
    for order in (
        F.col("a"),
        [F.desc("a"), "b"],
        [F.desc("a.b")],
        [F.desc(F.length("a"))],
        [F.desc("a")] * 2,
    ):
        with pytest.raises(BadOperator) as rejected:
            terms(order)
        assert rejected.value.field == "order"
        assert rejected.value.hint


@pytest.mark.parametrize("order", [{"a": "up"}, {"a": 1}, {"a": None}, {"": "asc"}, ["a", "a"], [None], [3]])
def test_other_orders_are_rejected(order: Any) -> None:
    with pytest.raises(BadOperator) as rejected:
        terms(order)
    assert rejected.value.field == "order"
    assert rejected.value.hint
