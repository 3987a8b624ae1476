"""The terms of all stored queries, by number: plain words, wildcards and fuzzy terms.

A document is first reduced to the numbers of the terms that it contains. A wildcard or a fuzzy term is a term like any
other: which of them a word matches is looked up, not tried, and remembered for each word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Protocol

from headrace.operators.search.document import Document
from headrace.operators.search.query import ANY, EDITS_MAX, FUZZY_CHARS_MAX, Fuzzy, Term, Wildcard
from headrace.operators.search.word_tests import WordTest, deletions, is_within, wildcard_test

Leaf = Term | Wildcard | Fuzzy

REMEMBERED_MAX = 300_000
"""Words whose patterns are remembered, for each field."""
REMEMBERED_CHARS_MAX = 100


class Vocabulary:
    """Numbers grow from 0 and are never reused."""

    def __init__(self, field_count: int) -> None:
        self._fields = [_FieldTerms() for _ in range(field_count)]
        self._any = _FieldTerms()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def number_of(self, leaf: Leaf) -> int:
        """The number of a term, a new one if the term is new."""
        terms = self._any if leaf.field == ANY else self._fields[leaf.field]
        number = terms.number_of(leaf, self._size)
        self._size = max(self._size, number + 1)
        return number

    def in_document(self, document: Document) -> list[int]:
        """The distinct numbers of the terms that the document contains."""
        found = self._any.among(document.word_set(ANY)) if self._any else []
        for field, terms in enumerate(self._fields):
            if terms:
                found += terms.among(document.word_set(field))
        return found


class _FieldTerms:
    """The terms of one field, or of all text columns."""

    def __init__(self) -> None:
        self._words: dict[str, int] = {}
        self._patterns: dict[str, int] = {}
        self._fuzzy: dict[tuple[str, int], int] = {}
        self._tables: tuple[_Table, ...] = (_Prefixes(), _Suffixes(), _Others(), _Neighbours())
        self._remembered = _Remembered(self._tables)

    def __bool__(self) -> bool:
        return bool(self._words or self._patterns or self._fuzzy)

    def number_of(self, leaf: Leaf, free: int) -> int:
        if isinstance(leaf, Term):
            return self._words.setdefault(leaf.word, free)
        if isinstance(leaf, Wildcard):
            number = self._patterns.setdefault(leaf.pattern, free)
        else:
            number = self._fuzzy.setdefault((leaf.word, leaf.edits), free)
        if number == free:
            next(table for table in self._tables if table.takes(leaf)).add(leaf, number)
            self._remembered.clear()
        return number

    def among(self, words: Set[str]) -> list[int]:
        found = list(map(self._words.__getitem__, self._words.keys() & words))
        if self._patterns or self._fuzzy:
            matched = set().union(*filter(None, map(self._remembered.__getitem__, words)))
            found += matched
        return found


class _Table(Protocol):
    """One kind of patterns, with a quick look-up of those that a word may match."""

    def takes(self, leaf: Leaf) -> bool: ...
    def add(self, leaf: Leaf, number: int) -> None: ...
    def of(self, word: str) -> Iterable[int]: ...


class _Remembered(dict[str, tuple[int, ...]]):
    """The patterns that each word matches."""

    def __init__(self, tables: Sequence[_Table]) -> None:
        super().__init__()
        self._tables = tables

    def __missing__(self, word: str) -> tuple[int, ...]:
        found = tuple({number for table in self._tables for number in table.of(word)})
        if len(word) <= REMEMBERED_CHARS_MAX:
            if len(self) >= REMEMBERED_MAX:
                self.clear()
            self[word] = found
        return found


class _Prefixes:
    """`word*`"""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._lengths: list[int] = []

    def takes(self, leaf: Leaf) -> bool:
        return isinstance(leaf, Wildcard) and leaf.pattern.endswith("*") and _is_plain(leaf.pattern[:-1])

    def add(self, leaf: Leaf, number: int) -> None:
        assert isinstance(leaf, Wildcard)
        self._numbers[leaf.pattern[:-1]] = number
        self._lengths = sorted({*self._lengths, len(leaf.pattern) - 1})

    def of(self, word: str) -> Iterable[int]:
        for length in self._lengths:
            if length > len(word):
                return
            number = self._numbers.get(word[:length])
            if number is not None:
                yield number


class _Suffixes(_Prefixes):
    """`*word`, as prefixes of the reversed word."""

    def takes(self, leaf: Leaf) -> bool:
        return isinstance(leaf, Wildcard) and leaf.pattern.startswith("*") and _is_plain(leaf.pattern[1:])

    def add(self, leaf: Leaf, number: int) -> None:
        assert isinstance(leaf, Wildcard)
        super().add(Wildcard(leaf.field, leaf.pattern[::-1]), number)

    def of(self, word: str) -> Iterable[int]:
        return super().of(word[::-1])


class _Others:
    """Other wildcards, by their first character; those without one are tried with every word."""

    def __init__(self) -> None:
        self._tests: dict[str, list[tuple[WordTest, int]]] = {}

    def takes(self, leaf: Leaf) -> bool:
        return isinstance(leaf, Wildcard)

    def add(self, leaf: Leaf, number: int) -> None:
        assert isinstance(leaf, Wildcard)
        first = leaf.pattern[0] if _is_plain(leaf.pattern[0]) else ""
        self._tests.setdefault(first, []).append((wildcard_test(leaf.pattern), number))

    def of(self, word: str) -> Iterable[int]:
        for first in {"", word[:1]}:  # the value of a string column may be empty
            for test, number in self._tests.get(first, ()):
                if test(word):
                    yield number


class _Neighbours:
    """Fuzzy terms, by what deletions leave of them: words within two edits have such a rest in common."""

    def __init__(self) -> None:
        self._terms: dict[str, list[tuple[str, int, int]]] = {}
        self._edits = 0

    def takes(self, leaf: Leaf) -> bool:
        return isinstance(leaf, Fuzzy)

    def add(self, leaf: Leaf, number: int) -> None:
        assert isinstance(leaf, Fuzzy)
        self._edits = max(self._edits, leaf.edits)
        for rest in deletions(leaf.word, leaf.edits):
            self._terms.setdefault(rest, []).append((leaf.word, leaf.edits, number))

    def of(self, word: str) -> Iterable[int]:
        if not self._terms or len(word) > FUZZY_CHARS_MAX + EDITS_MAX:
            return
        tried: set[int] = set()
        for rest in deletions(word, self._edits):
            for other, edits, number in self._terms.get(rest, ()):
                if number not in tried:
                    tried.add(number)
                    if is_within(word, other, edits):
                        yield number


def _is_plain(part: str) -> bool:
    return "*" not in part and "?" not in part
