"""Text to words: the same analysis for documents and for queries.

A word is a run of letters, digits, underscores and marks; each character of Chinese and Japanese scripts is a word of
its own. A word is folded: compatible forms become one (NFKC), diacritical marks are removed, and case is folded. So
`Café`, `CAFE` and `cafe` are one word, and `Straße` is `strasse`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_SINGLE = "\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts without spaces between words: kana and Han."""

_DIACRITICS = re.compile("[\u0300-\u036f]+")

_ASCII_WORD = re.compile(r"[a-z0-9_]+")
FOLDED_MAX = 200_000
"""Words whose folded form is remembered. A language has some hundred thousand forms of words."""


def _marks() -> str:
    """The marks of all scripts, such as vowel signs of Devanagari, as ranges of a character class."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x1F000):
        if unicodedata.category(chr(code)) in ("Mn", "Mc"):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


_WORD = re.compile(rf"[{_SINGLE}][{_marks()}]*|[^\W{_SINGLE}](?:[^\W{_SINGLE}]|[{_marks()}])*")


def words(text: str) -> list[str]:
    """The folded words of a text, in order."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return [_folded[word] for word in _WORD.findall(text)]


def spans(text: str) -> Iterator[tuple[str, int, int]]:
    """The folded words of a text, each with its start and end in it."""
    for found in _WORD.finditer(text):
        yield _folded[found[0]], found.start(), found.end()


def folded(text: str) -> str:
    """A text in its folded form, without a division into words."""
    if text.isascii():
        return text.lower()
    plain = _DIACRITICS.sub("", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFKC", plain).casefold()


def keyword(text: str) -> str:
    """A text as one word: folded, with single spaces."""
    return " ".join(folded(text).split())


class _Folded(dict[str, str]):
    def __missing__(self, word: str) -> str:
        if len(self) >= FOLDED_MAX:
            self.clear()
        form = self[word] = folded(word)
        return form


_folded = _Folded()
