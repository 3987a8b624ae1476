from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from headrace.conditions.expression import Call, Column, Literal, Value, written
from headrace.conditions.text import ConditionParser


@pytest.mark.parametrize(
    "value",
    ["it's", "", True, False, 0, -7, 2**63 - 1, -(2**63), 0.5, -1e300, Decimal("0.10"), b"\x00\xff", b""],
)
def test_written_value_is_parsed_as_the_same_value(value: Value) -> None:
    tree = ConditionParser(written(Call("=", (Column('a"b'), Literal(value))))).tree()
    assert isinstance(tree, Call)
    column, literal = tree.arguments
    assert column == Column('a"b')
    assert isinstance(literal, Literal)
    assert literal.value == value
    assert isinstance(literal.value, type(value)) or isinstance(value, float)


def test_times_are_written_as_text() -> None:
    assert written(Literal(date(2026, 11, 18))) == "'2026-11-18'"
    assert written(Literal(datetime(2026, 11, 18, 6, 30, tzinfo=UTC))) == "'2026-11-18T06:30:00+00:00'"
