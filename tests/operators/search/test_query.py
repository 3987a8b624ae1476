"""Query strings: their trees, and errors with their place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.search.query import (
    ANY,
    All,
    BadQuery,
    Bool,
    Field,
    Fuzzy,
    Kind,
    Node,
    Phrase,
    QueryParser,
    Range,
    Term,
    Wildcard,
    decode_query,
    encode_query,
)
from tests.operators.search import naive

PARSER = QueryParser(
    [
        Field("title", Kind.TEXT),
        Field("body", Kind.TEXT),
        Field("price", Kind.NUMBER),
        Field("at", Kind.TIME),
        Field("language", Kind.KEYWORD),
    ]
)
A, B, C = (Term(ANY, word) for word in "abc")
DAY_US = 86_400_000_000
MARCH_US = 1_772_323_200_000_000
"""2026-03-01"""


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("Café", Term(ANY, "cafe")),
        ("title:a", Term(0, "a")),
        ("title:(a b)", Bool(should=(Term(0, "a"), Term(0, "b")))),
        ("a b", Bool(should=(A, B))),
        ("a OR b", Bool(should=(A, B))),
        ("a AND b", Bool(must=(A, B))),
        ("a AND b OR c", Bool(should=(Bool(must=(A, B)), C))),
        ("a AND (b OR c)", Bool(must=(A, Bool(should=(B, C))))),
        ("+a b -c", Bool(must=(A,), should=(B,), must_not=(C,))),
        ("a NOT b", Bool(should=(A,), must_not=(B,))),
        ("a AND NOT b", Bool(must=(A,), must_not=(B,))),
        ("a OR NOT b", Bool(should=(A, Bool(must_not=(B,))))),
        ("NOT a", Bool(must_not=(A,))),
        ("-a", Bool(must_not=(A,))),
        ('"a b"', Phrase(ANY, ("a", "b"))),
        ('"a b"~2', Phrase(ANY, ("a", "b"), 2)),
        ('title:"A"', Term(0, "a")),
        ("wi-fi", Phrase(ANY, ("wi", "fi"))),
        ("a\\:b", Phrase(ANY, ("a", "b"))),
        ("roam~1", Fuzzy(ANY, "roam", 1)),
        ("roam~", Fuzzy(ANY, "roam", 2)),
        ("roam~0", Term(ANY, "roam")),
        ("Ro*", Wildcard(ANY, "ro*")),
        ("title:r?a**m", Wildcard(0, "r?a*m")),
        ("title:*", Wildcard(0, "*")),
        ("*", All()),
        ("*:*", All()),
        (
            "a^2 (b c)^0.5",
            Bool(should=(Term(ANY, "a", 2), Bool(should=(Term(ANY, "b", 0.5), Term(ANY, "c", 0.5))))),
        ),
        ("[a TO c}", Range(ANY, "a", "c", True, False)),
        ("title:[* TO *]", Wildcard(0, "*")),
        ("price:5", Range(2, 5, 5)),
        ("price:-5", Range(2, -5, -5)),
        ("price:[-1 TO 2.5}", Range(2, -1, 2.5, True, False)),
        ("price:-+5", Bool(must_not=(Range(2, 5, 5),))),
        ("price:-(5 OR 6)", Bool(must_not=(Bool(should=(Range(2, 5, 5), Range(2, 6, 6))),))),
        ("price:-*", Bool(must_not=(Range(2, None, None),))),
        ("\\!a", A),
        ("price:>=5", Range(2, 5, None)),
        ("price:<5", Range(2, None, 5, True, False)),
        ("price:*", Range(2, None, None)),
        ("at:2026-03-01", Range(3, MARCH_US, MARCH_US + DAY_US - 1)),
        ("at:{2026-03-01 TO 2026-03-02]", Range(3, MARCH_US + DAY_US - 1, MARCH_US + 2 * DAY_US - 1, False)),
        ('at:>="2026-03-01T01:00:00+01:00"', Range(3, MARCH_US, None)),
        ('at:["2026-03-01T00:00:00Z" TO *]', Range(3, MARCH_US, None)),
        ("language:PT\\ br", Term(4, "pt br")),
        ('language:"PT  br"', Term(4, "pt br")),
        ("language:p*", Wildcard(4, "p*")),
        ("language:[a TO b]", Range(4, "a", "b")),
    ],
)
def test_query_has_this_meaning(text: str, tree: Node) -> None:
    assert PARSER.parse(text) == tree
    assert decode_query(encode_query(tree)) == tree


def test_clauses_without_an_operator_are_all_required_if_set() -> None:
    parser = QueryParser(PARSER.fields, implicit="and")
    assert parser.parse("a b -c") == Bool(must=(A, B), must_not=(C,))


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "the query is empty"),
        ("tea AND", 7, "unexpected end of the query"),
        ("(tea", 4, "unexpected end of the query"),
        ("tea)", 3, "unexpected ')'"),
        ("tea OR OR pot", 7, "unexpected 'OR'"),
        ('green "tea', 6, "unexpected '\"'"),
        ("green titel:tea", 6, "field 'titel' is unknown"),
        ("title:(a body:b)", 9, "field 'body' is inside another field"),
        ("a && b", 2, "'&&' has no word"),
        ("green !tea", 6, "unexpected '!tea'"),
        ("green price:-title:tea", 13, "field 'title' is inside another field"),
        ("green wi-f*", 6, "a wildcard applies to one word"),
        ("language:a\\*b*", 9, "a wildcard applies to one word"),
        ("green roam~3", 6, "3 edits are not supported"),
        ("wi-fi~1", 0, "is not one word"),
        ("a" * 51 + "~1", 0, "a fuzzy word has more than 50 characters"),
        ("price:cheap", 6, "'cheap' is not a number"),
        ("price:1e999", 6, "is out of range"),
        ("price:5~1", 6, "a number can't be fuzzy"),
        ("at:yesterday", 3, "'yesterday' is not a date"),
        ("at:[now-1d TO *]", 4, "is not a fixed time"),
        ("green /t.a/", 6, "regular expressions are not supported"),
        ("green^ tea", 0, "^ has no number"),
        ("green^1.2.3", 5, "the number after ~ or ^ is invalid"),
        ("(" * 60 + "a" + ")" * 60, 51, "more than 50 levels"),
        ("a " * 1_100, 2_046, "more than 1,024 clauses"),
        ("a" * 10_001, 10_000, "the query has 10,001 characters"),
    ],
)
def test_bad_query_is_rejected_with_the_place_of_its_error(text: str, position: int, problem: str) -> None:
    with pytest.raises(BadQuery) as rejected:
        PARSER.parse(text)
    assert rejected.value.position == position
    assert f"position {position}: " in str(rejected.value)
    assert problem in str(rejected.value)


_PARTS = ["a", "c*", "a?c", "5", "-5", "2026-03-01", '"a b"', " TO ", " AND ", " OR ", " NOT ", "~1", "^2"]
_PARTS += ["title:", "price:", "at:", "language:", "*:", *"()[]{}~^!\\<>= +-é東"]


@settings(max_examples=500)
@given(
    st.text("ab:()[]{}\"~^*?+-\\/<>&|! \t\n'TONDR0.1é東", max_size=25)
    | st.lists(st.sampled_from(_PARTS), max_size=10).map("".join)
    | naive.queries
)
def test_any_text_is_a_query_or_a_bad_query_with_a_place_in_it(text: str) -> None:
    try:
        tree = PARSER.parse(text)
    except BadQuery as error:
        position = error.position
    else:
        position = 0
        assert decode_query(encode_query(tree)) == tree
    assert 0 <= position <= len(text)
