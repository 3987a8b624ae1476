"""Analysis: the same words for documents and queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.search import analysis
from headrace.operators.search.analysis import folded, keyword, spans, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Green tea, and TEA!", ["green", "tea", "and", "tea"]),
        ("wi-fi x_y don't", ["wi", "fi", "x_y", "don", "t"]),
        (
            "Café CAFÉ cafe\u0301 naïve Straße ﬁne ＡＢＣ",
            ["cafe", "cafe", "cafe", "naive", "strasse", "fine", "abc"],
        ),
        ("東京タワー tower", ["東", "京", "タ", "ワ", "ー", "tower"]),
        ("हिन्दी İstanbul", ["हिन्दी", "istanbul"]),
        ("\u0301 — …", []),
        ("", []),
    ],
)
def test_text_is_divided_into_folded_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected
    assert [word for word, _, _ in spans(text)] == expected


@given(st.text())
def test_words_of_a_text_are_those_of_its_spans_and_of_its_parts(text: str) -> None:
    found = list(spans(text))
    assert words(text) == [word for word, _, _ in found]
    assert [words(text[start:end]) for _, start, end in found] == [[word] for word, _, _ in found]
    assert all(word and "\n" not in word for word in words(text))


@given(st.text(max_size=20))
def test_folding_twice_is_folding_once(text: str) -> None:
    assert folded(folded(text)) == folded(text)


def test_keyword_is_one_word_with_single_spaces() -> None:
    assert keyword(" São\n Paulo ") == "sao paulo"


def test_memory_of_folded_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "FOLDED_MAX", 10)
    for number in range(100):
        assert words(f"É{number}") == [f"e{number}"]
        assert len(analysis._folded) <= 10
