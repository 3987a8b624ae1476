"""Tests of one word: wildcards and fuzzy terms. Their time is linear in the word for every pattern."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable

from headrace.operators.search.document import SEPARATOR

Hints = tuple[tuple[str, ...], bool]
"""Parts of the joined words of a text, and whether one of them is enough. A text without any of them has no match."""

WordTest = Callable[[str], bool]


@functools.lru_cache(maxsize=10_000)
def wildcard_test(pattern: str) -> WordTest:
    """Whether the whole word matches. The first place of each part is enough, so nothing is tried twice."""
    first, *middle = pattern.split("*")
    if not middle:
        return _exact(first)
    last = middle.pop()
    if "?" not in pattern and not any(middle):
        shortest = len(first) + len(last)
        if not last:
            return lambda word: word.startswith(first)
        return lambda word: len(word) >= shortest and word.startswith(first) and word.endswith(last)
    is_first, is_last = _exact(first), _exact(last)
    finders = [re.compile(_expression(part), re.DOTALL) for part in middle if part]

    def test(word: str) -> bool:
        end = len(word) - len(last)
        if end < len(first) or not is_first(word[: len(first)]) or not is_last(word[end:]):
            return False
        place = len(first)
        for finder in finders:
            found = finder.search(word, place, end)
            if found is None:
                return False
            place = found.end()
        return True

    return test


def _exact(part: str) -> WordTest:
    if "?" not in part:
        return part.__eq__
    compiled = re.compile(_expression(part), re.DOTALL)
    return lambda word: compiled.fullmatch(word) is not None


def _expression(part: str) -> str:
    return "".join("." if each == "?" else re.escape(each) for each in part)


def is_within(word: str, other: str, edits: int) -> bool:
    """Whether at most so many insertions, deletions, substitutions and swaps of neighbours turn one into the other.

    As in Lucene, a swapped pair is not edited a second time (the optimal string alignment distance).
    """
    if word == other:
        return True
    if edits == 0 or abs(len(word) - len(other)) > edits:
        return False
    place = 0
    for left, right in zip(word, other, strict=False):
        if left != right:
            break
        place += 1
    word, other, rest, rest_other = word[place:], other[place:], word[place + 1 :], other[place + 1 :]
    if (
        is_within(rest, rest_other, edits - 1)
        or is_within(word, rest_other, edits - 1)
        or is_within(rest, other, edits - 1)
    ):
        return True
    is_swapped = word[1:2] == other[:1] and word[:1] == other[1:2]
    return is_swapped and is_within(rest[1:], rest_other[1:], edits - 1)


def deletions(word: str, count: int) -> set[str]:
    """All texts that at most `count` deletions make of a word. Words within so many edits have one in common."""
    found = {word}
    newest = found
    for _ in range(count):
        newest = {each[:place] + each[place + 1 :] for each in newest for place in range(len(each))}
        found = found | newest
    return found


@functools.lru_cache(maxsize=10_000)
def wildcard_hints(pattern: str) -> Hints:
    if "?" not in pattern and pattern.count("*") == 1 and pattern != "*":
        if pattern.endswith("*"):
            return (SEPARATOR + pattern[:-1],), True
        if pattern.startswith("*"):
            return (pattern[1:] + SEPARATOR,), True
    return (max(re.split(r"[*?]", pattern), key=len),), False


@functools.lru_cache(maxsize=10_000)
def fuzzy_hints(word: str, edits: int) -> Hints:
    """An edit leaves one half of a word as it is, or swaps the characters in the middle. Of more parts than two for
    each edit, one is left."""
    if edits == 1 and len(word) >= 4:
        middle = len(word) // 2
        swapped = word[: middle - 1] + word[middle] + word[middle - 1]
        return (SEPARATOR + word[:middle], word[middle:] + SEPARATOR, SEPARATOR + swapped), False
    count = 2 * edits + 1
    places = [len(word) * number // count for number in range(count + 1)]
    return tuple({word[start:end] for start, end in itertools.pairwise(places)}), False
