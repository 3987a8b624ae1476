"""What is rejected is tested in `test_condition` and in `tests/views/query/test_text`."""

from __future__ import annotations

import pytest

from headrace.conditions import BadCondition
from headrace.conditions.expression import Call, Column, Literal
from headrace.conditions.text import ConditionParser


def test_place_of_a_rejected_part_is_that_in_the_condition() -> None:
    parser = ConditionParser("a = 1 AND pg_sleep(10) IS NULL")
    with pytest.raises(BadCondition, match="at character 11"):
        parser.tree()


def test_nested_fields_are_columns_with_a_path() -> None:
    parser = ConditionParser("a.b.c.d.e = 1")
    assert parser.tree() == Call("=", (Column('"a"."b"."c"."d"."e"'), Literal(1)))
    assert list(parser.columns.values()) == [("a", "b", "c", "d", "e")]
