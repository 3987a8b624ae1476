"""Terms of queries by number, and which of them a document contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.search import vocabulary as vocabulary_module
from headrace.operators.search.document import Document
from headrace.operators.search.query import ANY, Fuzzy, Term, Wildcard
from headrace.operators.search.vocabulary import Leaf, Vocabulary
from tests.operators.search.naive import FIELDS, Content, naive_match

_fields = st.sampled_from([ANY, 0, 1])
_leaves = st.one_of(
    st.builds(Term, _fields, st.text("abc", min_size=1, max_size=4)),
    st.builds(Wildcard, _fields, st.text("ab*?", min_size=1, max_size=5)),
    st.builds(Fuzzy, _fields, st.text("abc", min_size=1, max_size=5), st.sampled_from([1, 2])),
)
_texts = st.lists(st.text("abc", min_size=1, max_size=5), max_size=4).map(" ".join)


@given(st.lists(_leaves, max_size=15), st.lists(st.tuples(_texts, _texts), max_size=3))
def test_document_contains_the_terms_that_match_one_of_its_words(
    leaves: list[Leaf], texts: list[tuple[str, str]]
) -> None:
    vocabulary = Vocabulary(len(FIELDS))
    numbers = {leaf: vocabulary.number_of(leaf) for leaf in leaves}
    assert sorted(numbers.values()) == list(range(len(vocabulary)))
    for title, body in texts:
        content: Content = (title, body, None, None)
        found = vocabulary.in_document(Document(content, FIELDS))
        assert len(found) == len(set(found))
        assert set(found) == {number for leaf, number in numbers.items() if naive_match(leaf, content)}


def test_term_keeps_its_number() -> None:
    vocabulary = Vocabulary(1)
    leaves: list[Leaf] = [
        Term(ANY, "a"),
        Term(0, "a"),
        Wildcard(ANY, "a*"),
        Fuzzy(ANY, "a", 1),
        Fuzzy(ANY, "a", 2),
    ]
    numbers = list(map(vocabulary.number_of, leaves))
    assert numbers == [0, 1, 2, 3, 4]
    assert list(map(vocabulary.number_of, leaves)) == numbers


def test_memory_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary_module, "REMEMBERED_MAX", 10)
    vocabulary = Vocabulary(len(FIELDS))
    vocabulary.number_of(Wildcard(ANY, "a*"))
    text = " ".join(f"a{number}" for number in range(100)) + " " + "a" * 1_000
    assert vocabulary.in_document(Document((text, None, None, None), FIELDS)) == [0]
    assert len(vocabulary._any._remembered) <= 10
    assert "a" * 1_000 not in vocabulary._any._remembered
