"""Stored queries and documents of random words, the same in every run and on every side.

The words of documents have the frequencies of a natural text (Zipf's law). Queries prefer rarer words, as people do who
want to be alerted, and not the hundred most common ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

SEED = 20260301
VOCABULARY = 100_000
DOCUMENT_WORDS = 100
COMMON = 100
COLUMN = "body"

_SYLLABLES = [consonant + vowel for consonant in "bcdfghjklmnpqrstvwz" for vowel in "aeiou"]


class StoredQuery(NamedTuple):
    text: str
    lucene: str
    """The same query as a list of clauses for Lucene's parser, which has no precedence of operators."""


def vocabulary() -> list[str]:
    """From the most common word to the rarest."""
    choose = random.Random(SEED)
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        syllables = choose.choices(_SYLLABLES, k=choose.choice([2, 3, 3, 4]))
        words["".join(syllables) + choose.choice(["", "n", "s", "r"])] = None
    return list(words)


def documents(count: int) -> list[str]:
    words = vocabulary()
    chances = 1 / np.arange(1, VOCABULARY + 1)
    drawn = np.random.default_rng(SEED).choice(VOCABULARY, count * DOCUMENT_WORDS, p=chances / chances.sum())
    return [
        " ".join(words[number] for number in drawn[start : start + DOCUMENT_WORDS])
        for start in range(0, len(drawn), DOCUMENT_WORDS)
    ]


def queries(count: int) -> Iterator[StoredQuery]:
    """60 % conjunctions of two or three terms, 10 % each of phrases, exclusions and alternatives within a conjunction,
    5 % single terms, and a few prefixes, fuzzy terms and disjunctions."""
    words = vocabulary()
    chances = (np.arange(1, VOCABULARY + 1) + 50.0) ** -0.6
    chances[:COMMON] = 0
    generator = np.random.default_rng(SEED + 1)
    choose = random.Random(SEED + 1)
    for start in range(0, count, 10_000):
        size = min(10_000, count - start)
        drawn = generator.choice(VOCABULARY, (size, 3), p=chances / chances.sum())
        for numbers in drawn:
            yield _query(choose.random(), *(words[number] for number in numbers))


def _query(kind: float, a: str, b: str, c: str) -> StoredQuery:
    if kind < 0.4:
        return StoredQuery(f"{a} AND {b}", f"+{a} +{b}")
    if kind < 0.6:
        return StoredQuery(f"{a} AND {b} AND {c}", f"+{a} +{b} +{c}")
    if kind < 0.7:
        return StoredQuery(f'"{a} {b}"', f'"{a} {b}"')
    if kind < 0.8:
        return StoredQuery(f"{a} AND NOT {b}", f"+{a} -{b}")
    if kind < 0.9:
        return StoredQuery(f"({a} OR {b}) AND {c}", f"+({a} {b}) +{c}")
    if kind < 0.95:
        return StoredQuery(a, a)
    if kind < 0.97:
        return StoredQuery(f"{a[:-1]}* AND {b}", f"+{a[:-1]}* +{b}")
    if kind < 0.98:
        return StoredQuery(f"{a}~1 AND {b}", f"+{a}~1 +{b}")
    return StoredQuery(f"{a} OR {b}", f"{a} {b}")
