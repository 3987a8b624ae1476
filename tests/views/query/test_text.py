from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conditions.expression import Call, Column, Expression, Literal
from headrace.conditions.text import NODES_MAX, TEXT_CHARS_MAX
from headrace.views.errors import BadView
from headrace.views.query.text import condition, parse
from headrace.views.selection import ROWS_MAX, Selection
from tests.views.query.conditions import COLUMNS, CONDITION, KEY


def parsed(text: str) -> Selection:
    return parse(text, columns=["city", "users", "Opened At"], key=["city"])


def tree(where: str) -> Expression | None:
    return condition(parsed(f"WHERE {where}").where)


def test_empty_text_selects_all_rows_in_the_order_of_the_key() -> None:
    assert parsed("") == Selection(where="", order_by=(("city", False),), limit=100)


def test_clauses_are_parsed() -> None:
    found = parsed("WHERE city = 'Oslo' ORDER BY users DESC LIMIT 20 OFFSET 40")
    assert found == Selection(
        where="(\"city\" = 'Oslo')", order_by=(("users", True), ("city", False)), limit=20, offset=40
    )


def test_key_follows_the_order_only_if_it_is_not_in_it() -> None:
    assert parsed("ORDER BY city DESC, users, city").order_by == (("city", True), ("users", False))


def test_unquoted_names_may_differ_in_case_and_quoted_ones_may_not() -> None:
    assert tree("CITY = 'x'") == Call("=", (Column("city"), Literal("x")))
    assert tree('"Opened At" IS NULL') == Call("is null", (Column("Opened At"),))
    with pytest.raises(BadView, match="did you mean city"):
        parsed("WHERE \"City\" = 'x'")


def test_quotes_in_text_stay_text() -> None:
    text = "it''s; DROP TABLE x -- \\"
    assert tree(f"city = '{text}'") == Call("=", (Column("city"), Literal(text.replace("''", "'"))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("city = 'Oslo'", "can't be read at character 6"),
        ("WHERE users = = 2", "can't be read at character 15"),
        ("WHERE users > 1 AND usrs = 2", "usrs at character 21 is not a column.*did you mean users"),
        ("WHERE city = 'open", "is not a selection"),
        ("WHERE city = 'x'; DROP TABLE users", "is not a selection"),
        ("; DELETE FROM users", "is not a selection"),
        ("UNION SELECT 1", "is not a selection"),
        ("JOIN users u", "is not a selection"),
        ("AS x", "is not a selection"),
        ("WHERE users = 1 GROUP BY city", "is not a selection"),
        ("WHERE users = 1 FOR UPDATE", "is not a selection"),
        ("WHERE city IN (SELECT city FROM users)", "not possible here"),
        ("WHERE users = (SELECT 1)", r"\(SELECT 1\)"),
        ("WHERE EXISTS (SELECT 1)", "is not a condition"),
        ("WHERE users IN ()", "is not a condition"),
        ("WHERE users = NULL", "IS NULL"),
        ("WHERE users = ?", r"\?"),
        ("WHERE users = $1", "not a column"),
        ("WHERE now() > 1", "a selection has only"),
        ("WHERE load_extension('x') = 1", "a selection has only"),
        ("WHERE pg_sleep(10) IS NULL", "a selection has only"),
        ("WHERE CAST(users AS TEXT) = '1'", "a selection has only"),
        ("WHERE city || 'x' = 'y'", "a selection has only"),
        ("WHERE city LIKE 'a!%' ESCAPE '!'", "is not a condition"),
        ("WHERE city LIKE city", "LIKE 'Os%'"),
        (r"WHERE city LIKE 'a\'", "ends with a backslash"),
        ("WHERE city ILIKE 'a'", "is not a condition"),
        ("WHERE v.city = 'a'", "not possible here"),
        ("WHERE users = 99999999999999999999", "too large"),
        ("WHERE users = 1e999", "too large"),
        ("ORDER BY 1", "not a column"),
        ("ORDER BY lower(city)", "not a column"),
        ("ORDER BY users NULLS FIRST", "not possible"),
        ("LIMIT 0", "from 1 to 10,000"),
        (f"LIMIT {ROWS_MAX + 1}", "from 1 to 10,000"),
        ("LIMIT ALL", "from 1 to 10,000"),
        ("LIMIT 1.5", "from 1 to 10,000"),
        ("OFFSET -1", "from 0 to 100,000"),
        ("FETCH FIRST 3 ROWS ONLY", "from 1 to 10,000"),
        ("WHERE " + "(" * 4_000 + "users = 1" + ")" * 4_000, "nested too deeply|at most"),
        ("WHERE " + " OR ".join(["users = 1"] * NODES_MAX)[: TEXT_CHARS_MAX - 20], "at most"),
        ("WHERE users = 1" + " " * TEXT_CHARS_MAX, "characters"),
        ("WHERE city = '\0'", "NUL"),
    ],
)
def test_anything_else_is_rejected_with_its_place_and_a_hint(text: str, words: str) -> None:
    with pytest.raises(BadView, match=words) as raised:
        parsed(text)
    assert raised.value.hint


@given(
    text=st.text(max_size=60) | st.text(alphabet="WHERE city=users()'\"-;/*<>%,.0123 ANDORNT", max_size=60)
)
def test_any_text_is_parsed_or_rejected_with_an_error_for_users(text: str) -> None:
    try:
        found = parsed(f"WHERE {text}")
    except BadView:
        return
    assert condition(found.where) is not None


@given(text=CONDITION)
def test_checked_condition_is_parsed_as_the_same_tree_again(text: str) -> None:
    once = parse(f"WHERE {text}", columns=COLUMNS, key=KEY).where
    assert parse(f"WHERE {once}", columns=COLUMNS, key=KEY).where == once
