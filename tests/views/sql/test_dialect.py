"""The text of a view."""

from __future__ import annotations

import pytest

from headrace.views.errors import BadView
from headrace.views.sql.dialect import TEXT_LENGTH_MAX, SqlText, conjuncts, quoted, sql_of, together


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT id FRO users", "line 1, column"),
        ("SELECT id\nFROM users\nWHERE (", "line 3, column"),
        ("DROP TABLE users", "not one SELECT"),
        ("SELECT 1; SELECT 2", "not one SELECT"),
        ("", "not one SELECT"),
        ("SELECT 'x", "cannot be"),
        (f"SELECT {'x' * TEXT_LENGTH_MAX}", "characters"),
    ],
)
def test_text_that_is_not_one_select_is_rejected_with_a_remedy(text: str, message: str) -> None:
    with pytest.raises(BadView, match=message) as failed:
        SqlText("v", text).parsed()
    assert failed.value.hint


def test_names_may_be_in_double_quotes_and_in_backticks() -> None:
    parsed = SqlText("v", 'SELECT "a b", `c d` FROM "x.y" WHERE e = \'f\'').parsed()
    assert sql_of(parsed) == "SELECT `a b`, `c d` FROM `x.y` WHERE e = 'f'"
    assert quoted("a`b") == "`a``b`"


def test_place_is_that_of_the_first_word() -> None:
    text = SqlText("v", "SELECT a,\n  upper(b) AS c FROM t")
    assert text.place(text.parsed().expressions[1]) == ", line 2, column 3"


def test_conditions_are_taken_apart_and_put_together() -> None:
    condition = SqlText("v", "SELECT 1 FROM t WHERE a AND (b OR c) AND d").parsed().args["where"].this
    parts = conjuncts(condition)
    assert [sql_of(each) for each in parts] == ["a", "b OR c", "d"]
    assert sql_of(together(parts) or condition) == "a AND (b OR c) AND d"
    assert together([]) is None
