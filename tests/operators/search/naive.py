"""A naive matcher as oracle: a loop over all queries, each evaluated directly on the words of the document; and
strategies for queries and documents of a few words, so that they meet."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from headrace.operators.search.analysis import keyword, words
from headrace.operators.search.query import (
    ANY,
    All,
    Bool,
    Field,
    Fuzzy,
    Kind,
    Node,
    Phrase,
    QueryParser,
    Range,
    Term,
    Wildcard,
)

FIELDS = (
    Field("title", Kind.TEXT),
    Field("body", Kind.TEXT),
    Field("language", Kind.KEYWORD),
    Field("price", Kind.NUMBER),
)
PARSER = QueryParser(FIELDS)
Content = tuple[str | None, str | None, str | None, int | None]


def naive_hits(queries: Mapping[Any, Node], documents: Sequence[Content]) -> set[tuple[int, Any]]:
    return {
        (number, name)
        for number, content in enumerate(documents)
        for name, node in queries.items()
        if naive_match(node, content)
    }


def naive_match(node: Node, content: Content) -> bool:
    match node:
        case All():
            return True
        case Bool():
            if any(naive_match(each, content) for each in node.must_not):
                return False
            if node.must:
                return all(naive_match(each, content) for each in node.must)
            return not node.should or any(naive_match(each, content) for each in node.should)
        case Range() if node.field >= 0 and FIELDS[node.field].kind is Kind.NUMBER:
            return content[3] is not None and _in_range(node, content[3])
    columns = [0, 1] if node.field == ANY else [node.field]
    return any(_in_words(node, _words(content, column)) for column in columns)


def _words(content: Content, column: int) -> list[str]:
    text = content[column]
    if text is None:
        return []
    return words(str(text)) if FIELDS[column].kind is Kind.TEXT else [keyword(str(text))]


def _in_words(node: Node, found: list[str]) -> bool:
    match node:
        case Term():
            return node.word in found
        case Wildcard():
            expression = "".join({"*": ".*", "?": "."}.get(each, re.escape(each)) for each in node.pattern)
            return any(re.fullmatch(expression, word, re.DOTALL) for word in found)
        case Fuzzy():
            return any(distance(node.word, word) <= node.edits for word in found)
        case Phrase():
            return _has_phrase(node, found)
        case Range():
            return any(_in_range(node, word) for word in found)
    raise AssertionError(node)


def _has_phrase(node: Phrase, found: list[str]) -> bool:
    places = [[place for place, word in enumerate(found) if word == wanted] for wanted in node.words]
    for chosen in itertools.product(*places):
        moved = [place - number for number, place in enumerate(chosen)]
        if len(set(chosen)) == len(chosen) and max(moved) - min(moved) <= node.slop:
            return True
    return False


def _in_range(node: Range, value: Any) -> bool:
    above = node.low is None or value > node.low or (node.with_low and value == node.low)
    below = node.high is None or value < node.high or (node.with_high and value == node.high)
    return bool(above and below)


def distance(one: str, other: str) -> int:
    """The optimal string alignment distance, by its definition."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            costs = [
                table[i - 1, j] + 1,
                table[i, j - 1] + 1,
                table[i - 1, j - 1] + (one[i - 1] != other[j - 1]),
            ]
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                costs.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(costs)
    return table[len(one), len(other)]


WORDS = ("tea", "teas", "toe", "ate", "green", "greens", "gren", "pot", "top", "stop", "café", "東京")

_words_of_queries = st.sampled_from(WORDS)
_fields = st.sampled_from(["", "", "", "title:", "body:"])


def _joined(parts: list[str], operator: str) -> str:
    return "(" + operator.join(parts) + ")"


_leaves = st.one_of(
    _words_of_queries,
    st.builds("{}{}".format, _fields, _words_of_queries),
    st.builds(
        lambda field, found, slop: f'{field}"{" ".join(found)}"' + (f"~{slop}" if slop else ""),
        _fields,
        st.lists(_words_of_queries, min_size=2, max_size=3),
        st.integers(0, 3),
    ),
    st.builds(
        "{}{}".format,
        _fields,
        st.sampled_from(
            ["te*", "*ea", "t?a", "gre*s", "*e*e*", "?o*", "*o?", "t*", "p*t", "*:*", "*"]
        ).filter(lambda text: ":" not in text),
    ),
    st.builds(
        "{}{}~{}".format, _fields, st.sampled_from([w for w in WORDS if w.isascii()]), st.sampled_from([1, 2])
    ),
    st.builds(
        "{}{}{} TO {}{}".format,
        _fields,
        st.sampled_from("[{"),
        st.sampled_from(["gr", "p", "*", "tea"]),
        st.sampled_from(["pot", "z", "*", "tea"]),
        st.sampled_from("]}"),
    ),
    st.builds(
        "price:{}{} TO {}{}".format,
        st.sampled_from("[{"),
        st.sampled_from(["-1", "2", "*"]),
        st.sampled_from(["2", "3.5", "*"]),
        st.sampled_from("]}"),
    ),
    st.sampled_from(["language:en", "language:d*", "language:*", 'language:"pt br"', "*:*"]),
)


def _compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    several = st.lists(inner, min_size=2, max_size=4)
    signed = st.lists(
        st.builds("{}{}".format, st.sampled_from(["", "+", "-", "NOT "]), inner), min_size=1, max_size=4
    )
    return st.one_of(
        several.map(lambda parts: _joined(parts, " AND ")),
        several.map(lambda parts: _joined(parts, " OR ")),
        signed.map(lambda parts: _joined(parts, " ")),
        st.builds(lambda left, right: f"({left} AND NOT {right})", inner, inner),
        st.builds(lambda left, right: f"({left} OR NOT {right})", inner, inner),
    )


queries = st.recursive(_leaves, _compound, max_leaves=6)

_texts = st.none() | st.lists(
    st.sampled_from([*WORDS, "TEA!", "tee", "teapot", "stops,", "Cafe", "the", "—", "nothing"]), max_size=8
).map(" ".join)

documents: st.SearchStrategy[Content] = st.tuples(
    _texts, _texts, st.sampled_from([None, "", "en", "DE", "pt  BR"]), st.none() | st.integers(-2, 5)
)
