from __future__ import annotations

from typing import Any

import pytest

from headrace.cdc.postgres.arrays import parse_array


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("{}", []),
        ("{1,2}", [1, 2]),
        ("{1,NULL}", [1, None]),
        ("{{1,2},{3,NULL}}", [[1, 2], [3, None]]),
        ("{{{1}},{{2}}}", [[[1]], [[2]]]),
        ("[0:1]={7,8}", [7, 8]),
        ("[-1:0][2:2]={{7},{8}}", [[7], [8]]),
    ],
)
def test_array_is_a_list_of_its_converted_items(text: str, items: list[Any]) -> None:
    assert parse_array(text, int) == items


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('{"a b",c}', ["a b", "c"]),
        ('{"NULL",NULL}', ["NULL", None]),
        (r'{"say \"hi\"","back\\slash"}', ['say "hi"', "back\\slash"]),
        ('{"{x,y}",""}', ["{x,y}", ""]),
        ('{{"a,b",c},{d,NULL}}', [["a,b", "c"], ["d", None]]),
    ],
)
def test_quotes_and_escapes_are_removed_from_texts(text: str, items: list[Any]) -> None:
    assert parse_array(text, None) == items


def test_items_of_a_box_are_separated_by_semicolons() -> None:
    assert parse_array("{(1,1),(0,0);(3,3),(2,2)}", None, ";") == ["(1,1),(0,0)", "(3,3),(2,2)"]
