"""Exact evaluation of one query: hits as the oracle has them, scores, and places."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from headrace.operators.search.document import Document
from headrace.operators.search.evaluate import matches, places, score
from tests.operators.search import naive
from tests.operators.search.naive import FIELDS, PARSER, Content


def document(title: str, body: str = "", price: int | None = None) -> Document:
    return Document((title, body, None, price), FIELDS)


@settings(max_examples=150)
@given(naive.queries, naive.documents)
def test_query_matches_as_its_definition_says(text: str, content: Content) -> None:
    tree = PARSER.parse(text)
    own = Document(content, FIELDS)
    assert matches(tree, own) == naive.naive_match(tree, content)
    if matches(tree, own):
        assert score(tree, own) >= 0
        for field, first, end in places(tree, own):
            assert 0 <= first < end <= len(own.words(field))


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ('"green tea"', "green tea", True),
        ('"green tea"', "green hot tea", False),
        ('"green tea"~1', "green hot tea", True),
        ('"green tea"~1', "tea green", False),
        ('"green tea"~2', "tea green", True),
        ('"tea tea"~5', "tea", False),
        ('"tea tea"~5', "tea and tea", True),
        ('"a b c"~2', "a x b y c", True),
        ('"a b c"~1', "a x b y c", False),
    ],
)
def test_slop_is_how_far_words_may_be_moved(query: str, text: str, expected: bool) -> None:
    assert matches(PARSER.parse(query), document(text)) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", 3 / 4.2),
        ("title:tea", 1 / 2.2),
        ("tea^2", 6 / 4.2),
        ("tea OR green", 3 / 4.2 + 1 / 2.2),
        ("tea OR missing", 3 / 4.2),
        ("+green tea", 3 / 4.2 + 1 / 2.2),
        ("green -missing", 1 / 2.2),
        ("t*", 4 / 5.2),
        ("teas~1", 3 / 4.2),
        ('"green tea"', 1 / 2.2),
        ('"tea and"~1', 1 / 2.2),
        ("price:[1 TO 5]", 1.0),
        ("*:*^3", 3.0),
    ],
)
def test_score_counts_occurrences(query: str, expected: float) -> None:
    own = document("Green tea", "tea and toe and tea", 5)
    assert matches(PARSER.parse(query), own)
    assert score(PARSER.parse(query), own) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", {(0, 1, 2), (1, 0, 1)}),
        ("body:tea", {(1, 0, 1)}),
        ('"green tea"', {(0, 0, 2)}),
        ("gr* -missing", {(0, 0, 1)}),
        ("[g TO h]", {(0, 0, 1)}),
        ("green OR missing", {(0, 0, 1)}),
        ("price:5", set()),
    ],
)
def test_places_are_where_the_words_are(query: str, expected: set[tuple[int, int, int]]) -> None:
    assert set(places(PARSER.parse(query), document("green tea", "tea pot", 5))) == expected
