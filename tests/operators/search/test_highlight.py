"""Highlights: fragments of the text with the found words marked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from headrace.operators.search.document import Document
from headrace.operators.search.evaluate import matches
from headrace.operators.search.highlight import FRAGMENT_CHARS, highlights
from tests.operators.search import naive
from tests.operators.search.naive import FIELDS, PARSER, Content

MARK = ("<", ">")


def made(query: str, title: str | None, body: str | None = None, count: int = 3) -> list[tuple[str, str]]:
    document = Document((title, body, "en", None), FIELDS)
    found = highlights(PARSER.parse(query), document, count=count, mark=MARK)
    return [(each.column, each.text) for each in found]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", [("title", "Green <Tea>"), ("body", "A pot of <tea>, hot.")]),
        ("body:tea", [("body", "A pot of <tea>, hot.")]),
        ('"pot of tea"', [("body", "A <pot of tea>, hot.")]),
        ("pot AND hot", [("body", "A <pot> of tea, <hot>.")]),
        ("gre* OR missing", [("title", "<Green> Tea")]),
        ("tea -missing", [("title", "Green <Tea>"), ("body", "A pot of <tea>, hot.")]),
        ("language:en", []),
        ("*:*", []),
    ],
)
def test_found_words_are_marked(query: str, expected: list[tuple[str, str]]) -> None:
    assert made(query, "Green Tea", "A pot of tea, hot.") == expected


def test_long_text_has_fragments_that_begin_and_end_between_words() -> None:
    text = "word " * 100 + "tea and more tea " + "word " * 100 + "tea"
    first, second = (text for _, text in made("tea", None, text))
    assert "word <tea> and more <tea> word" in first
    assert second.endswith("word <tea>")
    assert all(len(each) <= FRAGMENT_CHARS + 20 for each in (first, second))
    assert all(each.startswith("word ") for each in (first, second))
    assert len(made("tea", None, text, count=1)) == 1


def test_accents_are_kept_in_the_text() -> None:
    assert made("cafe", "Ein Cafe\u0301, ein CAFÉ") == [("title", "Ein <Cafe\u0301>, ein <CAFÉ>")]


def test_common_word_of_a_huge_text_is_highlighted() -> None:
    ((column, text),) = made("tea", "tea " * 1_000_000, count=1)
    assert column == "title"
    assert text.startswith("<tea> <tea>")


@settings(max_examples=100)
@given(naive.queries, naive.documents)
def test_fragments_are_parts_of_the_text(query: str, content: Content) -> None:
    tree, document = PARSER.parse(query), Document(content, FIELDS)
    if matches(tree, document):
        for each in highlights(tree, document, count=5, mark=MARK):
            text = content[0] if each.column == "title" else content[1]
            plain = each.text.replace("<", "").replace(">", "")
            assert plain in (text or "")
            assert "<" in each.text
