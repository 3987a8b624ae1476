from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.conditions import BadCondition, NotComparable, parse_condition

ORDER: dict[str, Any] = {"amount": 120, "user": {"name": "ann", "a.b": 1}, "tags": ["new"], "note": None}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("amount > 100", True),
        ("amount * 1.5 = 180", True),
        ("amount > 120", False),
        ("user.name = 'ann' AND amount >= 120", True),
        ('"user"."a.b" = 1', True),
        ("\"user.name\" = 'ann'", False),
        ("user.name.first = 'ann'", False),
        ("missing > 1", False),
        ("NOT missing > 1", False),
        ("missing IS NULL", True),
        ("note IS NULL", True),
        ("tags IS NOT NULL", True),
        ("user.name LIKE 'a%'", True),
        ("coalesce(missing, 'x') = 'x'", True),
        ("TRUE", True),
        ("user.is_open", False),
        ("lower(user.name) IN ('ann', 'bob')", True),
        ("amount / 0 > 1 OR amount % 0 > 1", False),
    ],
)
def test_condition_on_fields_of_a_record(text: str, holds: bool) -> None:
    assert parse_condition(text).holds(ORDER) is holds


def test_paths_of_the_named_fields_are_known() -> None:
    found = parse_condition("amount > 1 AND user.name = 'ann' AND \"user.name\" IS NULL").paths
    assert sorted(found.values()) == [("amount",), ("user", "name"), ("user.name",)]


@pytest.mark.parametrize(
    "text",
    [
        "user.name > 1",
        "tags = 'new'",
        "amount = 'x'",
        "user + 1 > 0",
        "amount LIKE 'x'",
        "user > 1",
        "-tags = 1",
    ],
)
def test_values_of_other_types_are_an_error_that_names_them(text: str) -> None:
    with pytest.raises(NotComparable) as raised:
        parse_condition(text).holds(ORDER)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not a condition"),
        ("amount >", "can't be read at character"),
        ("now() > 1", "a condition has only"),
        ("amount = 1; DROP TABLE x", "is not a condition"),
        ("amount = 1 ORDER BY amount", "is not a condition"),
        ("amount IN (SELECT 1)", "not possible here"),
        ("amount > 1 LIMIT 3", "is not a condition"),
    ],
)
def test_other_text_is_rejected(text: str, words: str) -> None:
    with pytest.raises(BadCondition) as raised:
        parse_condition(text)
    assert words in f"{raised.value.message} {raised.value.hint}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.sampled_from(
    [
        "a > 1",
        "a.b = 'x'",
        "a + b < c",
        "a LIKE 'x%'",
        "a IN (1, 'x')",
        "length(a) = 1",
        "a BETWEEN 0 AND b",
        "-a.b > 0",
    ]
)


@given(text=TEXTS, record=st.dictionaries(st.sampled_from("abc"), JSON))
def test_any_record_has_an_answer_or_an_error_for_users(text: str, record: dict[str, Any]) -> None:
    try:
        assert parse_condition(text).holds(record) in (True, False)
    except NotComparable:
        return


@given(text=st.text(max_size=40) | st.text(alphabet="abc.='\"()<>-+ ANDORNT12", max_size=40))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        condition = parse_condition(text)
    except BadCondition:
        return
    assert condition.text == text
