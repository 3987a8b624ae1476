"""That values are those of databases is the property in `tests/views/query/test_sql`."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.conditions.evaluation import evaluated, order
from headrace.conditions.text import ConditionParser


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a AND b", None),
        ("a AND c", False),
        ("a OR b", True),
        ("b OR c", None),
        ("NOT b", None),
        ("b IN (1, 2)", None),
        ("n IN (1, 7)", True),
        ("n BETWEEN b AND 8", None),
        ("n BETWEEN 8 AND b", False),
    ],
)
def test_null_is_unknown(text: str, value: bool | None) -> None:
    assert evaluated(ConditionParser(text).tree(), {"a": True, "b": None, "c": False, "n": 7}) is value


def test_decimals_and_floats_are_added() -> None:
    assert evaluated(ConditionParser("x + 0.5 = 2").tree(), {"x": 1.5}) is True
    assert order(Decimal("1.5"), 2) == -1
