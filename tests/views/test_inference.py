"""Types of JSON values, from a sample."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.views.inference import inferred_columns, type_of, wider


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([1, "a"], "STRING"),
        ([2.5, True], "STRING"),
        ([None, True], "BOOLEAN"),
        ([None], "STRING"),
        ([2**63], "STRING"),
        ([[1], [2.5, None]], "STRING"),
        ([[1, None], [2]], "ARRAY<BIGINT>"),
        ([{"a": 1}], "STRING"),
    ],
)
def test_a_column_has_the_narrowest_type_that_holds_all_values(values: list[Any], expected: str) -> None:
    assert inferred_columns([{"x": value} for value in values]) == {"x": expected}


def test_columns_are_in_the_order_in_which_they_appear() -> None:
    assert list(inferred_columns([{"b": 1}, {"a": 1, "b": 2}])) == ["b", "a"]


def test_null_has_every_type() -> None:
    assert type_of(None) is None
    assert wider(None, "DATE") == wider("DATE", None) == "DATE"
