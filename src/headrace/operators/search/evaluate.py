"""Exact evaluation of a query on a document: whether it matches, its score, and the words that it found."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any

from headrace.operators.search.document import SEPARATOR, Document
from headrace.operators.search.query import All, Bool, Fuzzy, Node, Phrase, Range, Term, Wildcard
from headrace.operators.search.word_tests import fuzzy_hints, is_within, wildcard_hints, wildcard_test

SATURATION = 1.2
"""How soon more occurrences of a word add little to the score; the k1 of BM25."""

Place = tuple[int, int, int]
"""A field, and the numbers of the first word and of the word after the last."""


def matches(node: Node, document: Document) -> bool:
    match node:
        case Term():
            return node.word in document.word_set(node.field)
        case Bool():
            if any(matches(each, document) for each in node.must_not):
                return False
            if node.must:
                return all(matches(each, document) for each in node.must)
            return not node.should or any(matches(each, document) for each in node.should)
        case Phrase():
            return any(_has_phrase(node, document, each) for each in document.fields_of(node.field))
        case Range():
            return _is_in_range(node, document)
        case Wildcard() | Fuzzy():
            return _has_word(node, document)
        case All():
            return True


def score(node: Node, document: Document) -> float:
    """The sum over the matching clauses of `boost * n / (n + 1.2)`, where n is how often the clause occurs; a clause
    that does not count words adds its boost. The statistics of other documents play no part."""
    match node:
        case Bool():
            found = (*node.must, *node.should)
            return sum(score(each, document) for each in found if matches(each, document))
        case Term():
            count = document.count(node.field, node.word)
        case Phrase():
            count = sum(1 for _ in places(node, document))
        case Wildcard() | Fuzzy():
            test = _word_test(node)
            count = sum(
                document.count(node.field, word) for word in document.word_set(node.field) if test(word)
            )
        case Range() | All():
            return node.boost
    return node.boost * count / (count + SATURATION)


def places(node: Node, document: Document) -> Iterator[Place]:
    """Where the query found its words, in any order. Clauses that exclude documents find none."""
    match node:
        case Bool():
            for each in (*node.must, *node.should):
                if matches(each, document):
                    yield from places(each, document)
        case Phrase():
            for field in document.fields_of(node.field):
                yield from ((field, first, end) for first, end in _phrase_places(node, document.words(field)))
        case Term() | Wildcard() | Fuzzy():
            test = node.word.__eq__ if isinstance(node, Term) else _word_test(node)
            for field in document.fields_of(node.field):
                for number, word in enumerate(document.words(field)):
                    if test(word):
                        yield field, number, number + 1
        case Range():
            for field in document.fields_of(node.field):
                if isinstance(node.low, str) or isinstance(node.high, str):
                    for number, word in enumerate(document.words(field)):
                        if _is_between(node, word):
                            yield field, number, number + 1


def _word_test(node: Wildcard | Fuzzy) -> Any:
    if isinstance(node, Wildcard):
        return wildcard_test(node.pattern)
    return lambda word: is_within(node.word, word, node.edits)


def _has_word(node: Wildcard | Fuzzy, document: Document) -> bool:
    if isinstance(node, Wildcard):
        hints, is_enough = wildcard_hints(node.pattern)
    else:
        hints, is_enough = fuzzy_hints(node.word, node.edits)
    for field in document.fields_of(node.field):
        joined = document.joined(field)
        if any(hint in joined for hint in hints) and (
            is_enough or any(map(_word_test(node), document.word_set(field)))
        ):
            return True
    return False


def _is_in_range(node: Range, document: Document) -> bool:
    if isinstance(node.low, str) or isinstance(node.high, str):
        return any(_is_between(node, word) for word in document.word_set(node.field))
    value = document.value(node.field)
    return value is not None and _is_between(node, value)


def _is_between(node: Range, value: Any) -> bool:
    low, high = node.low, node.high
    if low is not None and not (value >= low if node.with_low else value > low):
        return False
    return high is None or bool(value <= high if node.with_high else value < high)


def _has_phrase(node: Phrase, document: Document, field: int) -> bool:
    if node.slop == 0:
        wanted = SEPARATOR + SEPARATOR.join(node.words) + SEPARATOR
        return wanted in document.joined(field)
    if not all(word in document.word_set(field) for word in node.words):
        return False
    return next(_phrase_places(node, document.words(field)), None) is not None


def _phrase_places(node: Phrase, words: list[str]) -> Iterator[tuple[int, int]]:
    """The first and the end of each place of the phrase.

    A word may be up to `slop` places away from where the phrase has it, relative to the others: the differences between
    its place in the text and in the phrase span at most `slop`, as in Lucene. A word of the text counts once.
    """
    wanted = node.words
    found: dict[str, list[int]] = {word: [] for word in wanted}
    for number, word in enumerate(words):
        if word in found:
            found[word].append(number)
    starts = {place - number for number, word in enumerate(wanted) for place in found[word]}
    for start in sorted(starts):
        chosen = _placed(wanted, found, start, node.slop)
        if chosen is not None and min(each - number for number, each in enumerate(chosen)) == start:
            yield min(chosen), max(chosen) + 1


def _placed(wanted: tuple[str, ...], found: dict[str, list[int]], start: int, slop: int) -> list[int] | None:
    """The places of the words, each in its window of the text: the first that is left, which leaves most to others."""
    chosen: list[int] = []
    used: dict[str, int] = {}
    for number, word in enumerate(wanted):
        places = found[word]
        which = max(bisect_left(places, start + number), used.get(word, 0))
        if which == len(places) or places[which] > start + number + slop:
            return None
        used[word] = which + 1
        chosen.append(places[which])
    return chosen
