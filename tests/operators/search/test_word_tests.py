"""Wildcards and fuzzy terms on one word."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.search.document import SEPARATOR
from headrace.operators.search.word_tests import (
    deletions,
    fuzzy_hints,
    is_within,
    wildcard_hints,
    wildcard_test,
)
from tests.operators.search.naive import distance

_words = st.text("abc", min_size=1, max_size=7)


@settings(max_examples=400)
@given(st.text("ab*?", min_size=1, max_size=6), _words)
def test_wildcard_matches_as_a_regular_expression_does(pattern: str, word: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(each, each) for each in pattern)
    is_match = re.fullmatch(expression, word) is not None
    assert wildcard_test(pattern)(word) == is_match
    hints, is_enough = wildcard_hints(pattern)
    is_hinted = any(hint in SEPARATOR + word + SEPARATOR for hint in hints)
    assert is_hinted == is_match if is_enough else is_hinted or not is_match


@settings(max_examples=400)
@given(_words, _words, st.sampled_from([1, 2]))
def test_fuzzy_word_is_within_its_edits(one: str, other: str, edits: int) -> None:
    is_match = distance(one, other) <= edits
    assert is_within(one, other, edits) == is_match
    if is_match:
        assert deletions(one, edits) & deletions(other, edits)
        hints, _ = fuzzy_hints(one, edits)
        assert any(hint in SEPARATOR + other + SEPARATOR for hint in hints)


def test_long_word_takes_linear_time() -> None:
    word = "a" * 1_000_000
    assert not wildcard_test("*a*a*a*a*a*a*b")(word)
    assert wildcard_test("*a?a*a*a*a*a*a")(word)
